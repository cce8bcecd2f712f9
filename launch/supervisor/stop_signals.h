// The signals that ask the supervisor to stop, read from a descriptor. The first one asks for the state to be saved, a
// second SIGINT or SIGTERM for an end at once. One that was ignored before stays so. SIGCHLD wakes the descriptor's
// reader too.
#pragma once

#include <csignal>

namespace lt::launch {

class StopSignals {
 public:
  // Blocks them for the thread that makes it, until its end.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int descriptor() const { return descriptor_; }
  // Takes what came since; does not wait.
  void take();
  // Waits for at most this time, or until a stop was asked for.
  void wait(double seconds);

  bool asked() const { return first_ != 0; }
  bool at_once() const { return second_ != 0; }
  int first() const { return first_; }    // 0: none
  int second() const { return second_; }  // 0: none

 private:
  sigset_t before_{};
  int descriptor_;
  int first_ = 0, second_ = 0;
};

double now_s();  // of a clock that is never set

}  // namespace lt::launch
