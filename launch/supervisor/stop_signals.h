// The signals that ask the supervisor to stop, read from a descriptor. The first one requests a save; the second
// that is SIGINT or SIGTERM requests an immediate end. A signal that was ignored before stays ignored. SIGCHLD also
// wakes the descriptor's reader.
#pragma once

#include <csignal>

namespace lt::launch {

class StopSignals {
 public:
  // Blocks the signals in the calling thread until this object is destroyed.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int descriptor() const { return descriptor_; }
  // Takes the signals that have arrived, without waiting.
  void take();
  // Waits for `seconds` at most, or until a stop is requested.
  void wait(double seconds);

  bool asked() const { return first_ != 0; }
  bool at_once() const { return second_ != 0; }
  int first() const { return first_; }    // 0: none
  int second() const { return second_; }  // 0: none

 private:
  sigset_t before_{};
  int descriptor_;
  int first_ = 0, second_ = 0, demands_ = 0;
};

}  // namespace lt::launch
