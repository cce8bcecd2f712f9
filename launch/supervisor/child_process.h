// A process that the supervisor started. It has a process group of its own, so that the terminal's Ctrl-C does not
// reach it, no standard input, and its standard error on a pipe. It gets `death_signal` when the supervisor dies.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lt::launch {

using Environment = std::map<std::string, std::string>;
Environment current_environment();

struct ProcessSpec {
  std::vector<std::string> command;  // the first is a path
  Environment environment;
  int death_signal;
};

// To be made and used by the main thread alone: a parent-death signal follows the thread that forked.
class ChildProcess {
 public:
  // Throws InternalError where the system has no process or pipe left.
  explicit ChildProcess(const ProcessSpec& spec);
  // A process that still runs is killed.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // The read end of its standard error, which does not block.
  int errors() const { return errors_; }
  void send(int signal) const;
  // As a shell has it: the exit code, or 128 and the signal. Nothing while it runs.
  std::optional<int> ended();
  // Whether a signal ended it.
  bool was_signalled() const { return signalled_; }

 private:
  pid_t pid_ = -1;
  int errors_ = -1;
  std::optional<int> status_;
  bool signalled_ = false;
};

}  // namespace lt::launch
