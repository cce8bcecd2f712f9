// Handles signals while a run trains. SIGTERM, SIGUSR1 and SIGINT ask it to save and stop: the handler only records the
// first one, and the ranks agree on the step after which they stop. SIGPIPE is ignored, because the reader of the
// console may go away.
//
// Threads that compute block the signals, and a separate thread reads them from a signalfd: oneDNN's generated code
// keeps values below its stack pointer, which a handler's frame would overwrite (seen with oneDNN 2.6). Handlers run
// only on threads of other libraries, which do not block the signals.
#pragma once

#include <csignal>
#include <string>
#include <thread>

#include "io/descriptor.h"
#include "libtrain/comm/group.h"

namespace lt::run {

// Handles the signals during its lifetime and then restores the earlier handlers. Construct it on the thread that
// trains: that thread, its kernel threads and all threads that they start later block the signals. At most one object
// per process may exist. A second SIGINT ends the process at once with code 130. If SIGINT was ignored, it stays
// ignored, because a shell starts background jobs that way.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  // The first stop signal that this process received before the call; 0: none, or no RunSignals object exists.
  static int noted();

 private:
  struct sigaction before_[5];
  sigset_t mask_before_;
  io::Descriptor end_;  // an eventfd that tells the receiver to end
  std::thread receiver_;
};

// Returns the stop signal of the lowest rank that received one; 0: none. All ranks of `control` must call it.
int agree_on_stop(const Group& control);

// For example "SIGUSR1".
std::string name_of_signal(int signal);

}  // namespace lt::run
