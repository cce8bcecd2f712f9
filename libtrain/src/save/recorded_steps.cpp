// Waits with a condition variable for a step's record.
#include "save/recorded_steps.h"

namespace lt::saver {

void RecordedSteps::add(Size step) {
  const std::lock_guard lock(mutex_);
  newest_ = step;
  changed_.notify_all();
}

bool RecordedSteps::has(Size step) {
  const std::lock_guard lock(mutex_);
  return newest_ >= step;
}

void RecordedSteps::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool RecordedSteps::wait_for(Size step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || newest_ >= step; });
  return newest_ >= step;
}

}  // namespace lt::saver
