// Signals while a run trains. SIGTERM, SIGUSR1 and SIGINT ask it to save and stop: the handler only notes the first
// one, and the ranks agree on the step after which they stop. SIGPIPE is ignored: who reads the console may leave.
#pragma once

#include <csignal>
#include <string>

#include "libtrain/comm/group.h"

namespace lt {

// Takes the signals over while it lives, at most one in a process, and gives them back to their handlers. A second
// SIGINT ends the process at once, with code 130. SIGINT stays ignored where it was: so a shell starts what it puts
// into the background.
class RunSignals {
 public:
  RunSignals();
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  // The request to stop that came to this process first; 0: none, or nobody listens.
  static int noted();

 private:
  struct sigaction before_[4];
};

// What came to any rank of `control`: that of the lowest one; 0: none. All ranks call it.
int agree_on_stop(const Group& control);

// "SIGUSR1".
std::string name_of_signal(int signal);

}  // namespace lt
