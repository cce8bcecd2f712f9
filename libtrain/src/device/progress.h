// The progress of this process: counters that advance with each collective, phase and step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/device/progress.h"

namespace lt {

struct Progress {
  std::uint64_t count = 0;     // advances with all host activity
  Phase phase = Phase::none;   // the most patient one that a thread is in
  std::int64_t step = 0;       // the running step; 0 before the first
  double slowest_step_s = 0;   // from the start of one step to the start of the next, without patient phases
  std::uint32_t launches = 0;  // graph launches that the devices have reached
  bool awaits_background = false;
};
Progress read_progress();

// Counts progress. Inside a BackgroundScope it counts only while a thread waits for background work.
void count_progress();
// The duration of a step is from this call to the thread's next one, so the last step of a thread has none.
void begin_step(std::int64_t step);
bool is_in_background();
// Call this before launching a graph on a CUDA stream. The stream counts the launch when it reaches this point.
void count_launch(const Stream& stream);

}  // namespace lt
