// Records one time point at each change of activity.
#include "profile/activity_clock.h"

#include <utility>

namespace lt::profile {

ActivityTimes Lap::times() const {
  ActivityTimes ms{};
  for (std::size_t i = 1; i < changes_.size(); ++i) {
    ms[static_cast<std::size_t>(changes_[i - 1].activity)] += changes_[i].at.ms_since(changes_[i - 1].at);
  }
  return ms;
}

ActivityClock::ActivityClock(Device device) : stream_(Stream::compute(device)) { change_to(Activity::other); }

Activity ActivityClock::enter(Activity next) {
  const Activity previous = activity();
  if (next != previous) change_to(next);
  return previous;
}

Lap ActivityClock::lap() {
  change_to(activity());
  Lap next;
  next.changes_.reserve(lap_.changes_.size());  // laps have similar sizes
  next.changes_.push_back(lap_.changes_.back());
  return std::exchange(lap_, std::move(next));
}

void ActivityClock::append(const Lap& other) {
  const Activity previous = activity();
  lap_.changes_.insert(lap_.changes_.end(), other.changes_.begin(), other.changes_.end());
  lap_.changes_.back().activity = previous;
}

}  // namespace lt::profile
