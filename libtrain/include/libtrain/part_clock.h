// Where the time of a step goes: a clock that is in exactly one part at any moment, so the parts add up to the whole.
// A scope enters a part and returns to the enclosing one; what no scope covers is `other`.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "libtrain/timeline.h"

namespace lt {

enum class Part : unsigned char {
  data,
  forward,
  backward,
  recompute,
  gather_exposed,
  reduce_exposed,
  optimizer,
  checkpoint,
  other,
};
inline constexpr int kParts = 9;
inline constexpr std::array<std::string_view, kParts> kPartNames = {
    "data", "forward", "backward", "recompute", "gather_exposed", "reduce_exposed", "optimizer", "checkpoint", "other"};

// Milliseconds by part since the last take().
class PartClock {
 public:
  PartClock();
  // Enters `part` and returns the one that was current.
  Part enter(Part part);
  // The times so far, whose sum is the wall time since the last take(); starts again from zero.
  std::array<double, kParts> take();

  // The clock of this thread's step; null: scopes do nothing.
  static PartClock* current();
  static void set_current(PartClock* clock);

 private:
  void settle();

  Part part_ = Part::other;
  std::chrono::steady_clock::time_point since_;
  std::array<double, kParts> ms_{};
};

// `clock`, which outlives the scope, is that of this thread's step until the scope ends; null: none is.
class PartClockScope {
 public:
  explicit PartClockScope(PartClock* clock) : previous_(PartClock::current()) { PartClock::set_current(clock); }
  ~PartClockScope() { PartClock::set_current(previous_); }
  PartClockScope(const PartClockScope&) = delete;
  PartClockScope& operator=(const PartClockScope&) = delete;

 private:
  PartClock* previous_;
};

class PartScope {
 public:
  explicit PartScope(Part part)
      : clock_(PartClock::current()), span_(Lane::compute, kPartNames[static_cast<std::size_t>(part)], {}, true) {
    if (clock_ != nullptr) previous_ = clock_->enter(part);
  }
  ~PartScope() {
    if (clock_ != nullptr) clock_->enter(previous_);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  PartClock* clock_;
  const SpanScope span_;
  Part previous_ = Part::other;
};

}  // namespace lt
