// Where the time of a step goes: a clock that is in exactly one part at any moment, so the parts add up to the whole.
// A scope enters a part and returns to the enclosing one; what no scope covers is `other`.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "libtrain/context.h"
#include "libtrain/device.h"
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

// Milliseconds by part; their sum is the wall time.
using PartTimes = std::array<double, kParts>;

// What a clock saw between two of its laps.
class Lap {
 public:
  // Waits until the device has come to the lap's end.
  PartTimes times() const;

 private:
  friend class PartClock;
  struct Change {
    Part part;
    TimePoint at;
  };
  std::vector<Change> changes_;  // the last one is the end
};

// By the compute stream of a device: on CUDA a part lasts from the end of the work before it to the end of its own,
// and the host waits for nothing.
class PartClock {
 public:
  explicit PartClock(Device device = kCpu);
  // Enters `part` and returns the one that was current.
  Part enter(Part part);
  // Ends the lap, and begins the next one in the same part.
  Lap lap();
  // What another clock of the device saw was part of this lap, just now; then the part is again the one before.
  void append(const Lap& other);

 private:
  void change_to(Part part) { lap_.changes_.push_back({part, TimePoint::on(stream_)}); }
  Part part() const { return lap_.changes_.back().part; }

  Stream stream_;
  Lap lap_;
};

// The clock, which outlives the scope, is that of this thread's step until the scope ends; null: none is.
using PartClockScope = ContextMemberScope<&Context::clock>;

class PartScope {
 public:
  explicit PartScope(Part part)
      : clock_(Context::current().clock), span_(Lane::compute, kPartNames[static_cast<std::size_t>(part)], {}, true) {
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
