// The part clock: one time stamp at each change of part.
#include "libtrain/part_clock.h"

#include <utility>

namespace lt {

PartTimes Lap::times() const {
  PartTimes ms{};
  for (std::size_t i = 1; i < changes_.size(); ++i) {
    ms[static_cast<std::size_t>(changes_[i - 1].part)] += changes_[i].at.ms_since(changes_[i - 1].at);
  }
  return ms;
}

PartClock::PartClock(Device device) : stream_(Stream::compute(device)) { change_to(Part::other); }

Part PartClock::enter(Part next) {
  const Part previous = part();
  change_to(next);
  return previous;
}

Lap PartClock::lap() {
  change_to(part());
  Lap next;
  next.changes_.reserve(lap_.changes_.size());  // laps are alike
  next.changes_.push_back(lap_.changes_.back());
  return std::exchange(lap_, std::move(next));
}

void PartClock::append(const Lap& other) {
  const Part previous = part();
  lap_.changes_.insert(lap_.changes_.end(), other.changes_.begin(), other.changes_.end());
  lap_.changes_.back().part = previous;
}

}  // namespace lt
