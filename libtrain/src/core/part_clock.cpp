// The part clock: one time stamp at each change of part.
#include "libtrain/part_clock.h"

namespace lt {
namespace {
thread_local PartClock* current_clock = nullptr;
}

PartClock* PartClock::current() { return current_clock; }
void PartClock::set_current(PartClock* clock) { current_clock = clock; }

PartClock::PartClock() : since_(std::chrono::steady_clock::now()) {}

void PartClock::settle() {
  const auto now = std::chrono::steady_clock::now();
  ms_[static_cast<std::size_t>(part_)] += std::chrono::duration<double, std::milli>(now - since_).count();
  since_ = now;
}

Part PartClock::enter(Part part) {
  settle();
  const Part previous = part_;
  part_ = part;
  return previous;
}

std::array<double, kParts> PartClock::take() {
  settle();
  const auto result = ms_;
  ms_.fill(0);
  return result;
}

}  // namespace lt
