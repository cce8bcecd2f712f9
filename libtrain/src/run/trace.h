// Writes to <run.dir>/trace the timeline of the steps that record.trace_steps asks for, with kernels for the steps of
// record.profile_steps.
#pragma once

#include <memory>
#include <optional>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"
#include "run/run.h"

namespace lt::run {

// All ranks must call it around every step. The first step of a start is a warm-up and is left out. Time spent in
// before_step() and after_step() does not belong to a step; they return whether they spent any.
class Trace {
 public:
  explicit Trace(Run& run);

  bool before_step(Size step);
  // One step after the last recorded one, when the collectives in flight have finished, rank 0 writes rank-R.json for
  // each rank and all.json for all of them. If that fails, it logs a warning and there is no trace.
  bool after_step(Size step);
  // Stops recording. Call it when no more steps follow.
  void stop();
  // Stops recording. If no trace was written yet, writes the recorded steps or logs that there are none.
  void finish();

 private:
  void stop_kernels();
  void write();
  void say_kernels() const;

  Run& run_;
  const Size begin_, end_, kernels_end_;  // steps [begin, end), with kernels [begin, kernels_end)
  bool written_ = false;
  std::shared_ptr<Timeline> timeline_;
  std::optional<TimelineScope> current_;  // while steps are recorded
  bool records_kernels_ = false;          // true while kernels are recorded
  profile::KernelRecords kernels_;
};

}  // namespace lt::run
