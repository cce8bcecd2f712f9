// The progress of this process: its phase, its step, and counters that advance with each collective, phase, step and
// pass of a unit. The work writes it; the watchdog's thread reads it.
#pragma once

#include <string_view>

#include "libtrain/device/device.h"
#include "libtrain/device/phase.h"

namespace lt::device {

inline constexpr int kPhases = 12;
// "forward", "evaluation"; "no phase" for none.
std::string_view to_string(Phase phase);
// How many times watchdog.collective_s a rank may stay in the phase without progress: 1 within a step, more if long
// host work is ordinary.
double patience(Phase phase);

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
// That of work on `device`. Rehearsals on meta make none.
inline void count_progress(Device device) {
  if (!device.is_meta()) count_progress();
}
// The duration of a step is from this call to the thread's next one, so the last step of a thread has none.
void begin_step(std::int64_t step);
// The process stood still for so long, stopped or suspended, until just now. The duration of the running step excludes
// that, if it is still running.
void count_pause(double seconds);
bool is_in_background();
// Call this before launching a graph on a CUDA stream. The stream counts the launch when it reaches this point.
void count_launch(const Stream& stream);

}  // namespace lt::device
