// The progress of this process: counters that move with each collective, phase and step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/device/progress.h"

namespace lt {

struct Progress {
  std::uint64_t count = 0;  // moves with whatever the host does
  Phase phase = Phase::none;
  std::int64_t step = 0;       // that runs; 0: none so far
  double slowest_step_s = 0;   // from the begin of one step to the next, without what is patient in between
  std::uint32_t launches = 0;  // of graphs that the device has begun
  bool awaits_background = false;
};
Progress read_progress();

// Counts progress; in a BackgroundScope only where it is awaited.
void count_progress();
void begin_step(std::int64_t step);
bool is_in_background();
// Before a graph is given to a CUDA stream: the stream counts it when it comes there.
void count_launch(const Stream& stream);

}  // namespace lt
