// A clock that is in exactly one activity at any time, so the times of all activities add up to the total. A scope
// enters an activity and, at its end, returns to the enclosing one. Time outside all scopes is `other`.
#pragma once

#include <cstddef>
#include <vector>

#include "libtrain/device/context.h"
#include "libtrain/device/device.h"
#include "libtrain/profile/activity.h"
#include "libtrain/profile/timeline.h"

namespace lt::profile {

// The changes of activity between two calls of ActivityClock::lap().
class Lap {
 public:
  // Waits until the device has reached the lap's end.
  ActivityTimes times() const;
  // The number of time points, including the lap's end but not its begin.
  std::size_t time_points() const { return changes_.size() - 1; }

 private:
  friend class ActivityClock;
  struct Change {
    Activity activity;
    TimePoint at;
  };
  std::vector<Change> changes_;  // the last one marks the lap's end
};

// Measures on the compute stream of a device. On CUDA an activity lasts from the end of the preceding work to the end
// of its own work. The host does not wait.
class ActivityClock {
 public:
  explicit ActivityClock(Device device = kCpu);
  // Enters `activity` and returns the previous one.
  Activity enter(Activity activity);
  // Ends the lap and begins the next one in the same activity.
  Lap lap();
  // Appends a lap of another clock on the same device. Afterwards the clock is in the same activity as before.
  void append(const Lap& other);

 private:
  void change_to(Activity activity) { lap_.changes_.push_back({activity, TimePoint::on(stream_)}); }
  Activity activity() const { return lap_.changes_.back().activity; }

  Stream stream_;
  Lap lap_;
};

// Sets the clock of this thread's step during the scope; null means no clock. The clock must outlive the scope.
using ActivityClockScope = ContextMemberScope<&Context::clock>;

class ActivityScope {
 public:
  explicit ActivityScope(Activity activity)
      : clock_(Context::current().clock),
        span_(Lane::compute, kActivityNames[static_cast<std::size_t>(activity)], {}, true) {
    if (clock_ != nullptr) previous_ = clock_->enter(activity);
  }
  ~ActivityScope() {
    if (clock_ == nullptr) return;
    try {
      clock_->enter(previous_);
    } catch (...) {
      // A destructor cannot report it; the device's next call fails as well.
    }
  }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  ActivityClock* clock_;
  const SpanScope span_;
  Activity previous_ = Activity::other;
};

}  // namespace lt::profile
