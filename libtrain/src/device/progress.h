// The progress of this process: counters that move with each collective, phase and step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/device/progress.h"

namespace lt {

struct Progress {
  std::uint64_t count = 0;  // advances with all host activity
  Phase phase = Phase::none;
  std::int64_t step = 0;       // running; 0: none so far
  double slowest_step_s = 0;   // from the begin of one step to the next, without patient phases
  std::uint32_t launches = 0;  // graphs that the device has begun
  bool awaits_background = false;
};
Progress read_progress();

// Counts progress; inside a BackgroundScope only if a thread awaits it.
void count_progress();
void begin_step(std::int64_t step);
bool is_in_background();
// Call it before launching a graph on a CUDA stream: the stream counts the launch when it reaches that point.
void count_launch(const Stream& stream);

}  // namespace lt
