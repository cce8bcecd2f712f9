// The progress of this process: its phase, its step, and counters that advance with each collective, phase, step and
// pass of a unit. Working threads write it; the watchdog's thread reads it.
#pragma once

#include <string_view>

#include "libtrain/device/device.h"
#include "libtrain/device/phase.h"

namespace lt::device {

inline constexpr int kPhases = 12;
// Returns the phase's name, such as "forward"; "no phase" for Phase::none.
std::string_view to_string(Phase phase);
// Returns how long a rank may stay in the phase without progress, as a multiple of watchdog.collective_s: 1 for the
// phases of a step, more for phases in which long host work is normal.
double patience(Phase phase);

struct Progress {
  std::uint64_t count = 0;     // advances with all host activity
  Phase phase = Phase::none;   // of all threads' phases, the one with the most patience
  std::int64_t step = 0;       // the running step; 0 before the first
  double slowest_step_s = 0;   // from start to start, without phases of patience above 1
  std::uint32_t launches = 0;  // graph launches that the devices have reached
  bool awaits_background = false;
};
Progress read_progress();

// Counts progress. Inside a BackgroundScope it counts only while a thread waits for background work.
void count_progress();
// Counts progress of work on `device`. On meta it counts nothing: a rehearsal (a dry run of the step on shapes only) is
// no progress.
inline void count_progress(Device device) {
  if (!device.is_meta()) count_progress();
}
// A step lasts from this call to the thread's next one, so a thread's last step has no duration.
void begin_step(std::int64_t step);
// Reports that the process was stopped or suspended for `seconds` until now. The duration of the running step excludes
// this time.
void count_pause(double seconds);
bool is_in_background();
// Call this before launching a graph on a CUDA stream. The stream counts the launch when it reaches this point.
void count_launch(const Stream& stream);

}  // namespace lt::device
