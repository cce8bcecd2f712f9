// The signals that ask the supervisor to stop (SIGINT, SIGTERM, SIGHUP, SIGUSR1), read from a descriptor. The first
// signal requests a save. The second SIGINT or SIGTERM requests an immediate end. A signal that was ignored at the
// start stays ignored. SIGCHLD also makes the descriptor readable.
#pragma once

#include <csignal>

namespace lt::launch {

class StopSignals {
 public:
  // Blocks the signals in the calling thread until this object is destroyed. Throws InternalError if the system has no
  // descriptor left.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int descriptor() const { return descriptor_; }
  // Reads the signals that have arrived, without waiting.
  void take();
  // Waits for `seconds` at most, or until a stop is requested.
  void wait(double seconds);

  bool asked() const { return first_ != 0; }
  bool at_once() const { return second_ != 0; }
  int first() const { return first_; }    // number of the signal; 0 before it
  int second() const { return second_; }  // number of the signal; 0 before it

 private:
  sigset_t before_{};
  int descriptor_;
  int first_ = 0, second_ = 0, demands_ = 0;
};

}  // namespace lt::launch
