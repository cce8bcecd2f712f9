// A process that the supervisor started. It has its own process group, so that Ctrl-C in the terminal does not reach
// it. Its standard input is /dev/null, and its standard error is a pipe. It receives `death_signal` when the supervisor
// dies.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/descriptor.h"

namespace lt::launch {

using Environment = std::map<std::string, std::string>;
Environment current_environment();

struct ProcessSpec {
  std::vector<std::string> command;  // the first word is a path
  Environment environment;
  int death_signal;
  std::shared_ptr<const io::Descriptor> inherited = {};  // stays open in the process, with the same number; may be null
};

// Only the main thread may create and use it: the kernel sends `death_signal` when the thread that forked ends.
class ChildProcess {
 public:
  // Throws InternalError if the system cannot create a process or a pipe.
  explicit ChildProcess(const ProcessSpec& spec);
  // Kills the process if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // The non-blocking read end of its standard error.
  int errors() const { return errors_; }
  void send(int signal) const;
  // Returns the exit code as in a shell, 128 plus the signal if a signal ended the process, or nullopt while it runs.
  std::optional<int> ended();
  // True if a signal ended it.
  bool was_signalled() const { return signalled_; }

 private:
  pid_t pid_ = -1;
  int errors_ = -1;
  std::optional<int> status_;
  bool signalled_ = false;
};

}  // namespace lt::launch
