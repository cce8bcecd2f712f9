// Writes the timeline of record.trace_steps steps to <run.dir>/trace, with kernels for the first record.profile_steps
// steps.
#pragma once

#include <memory>
#include <optional>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"
#include "run/run.h"

namespace lt::run {

// All ranks must call it around every step. The first step of a start is a warm-up and is not recorded. before_step()
// and after_step() return true if they took time; that time does not belong to a step.
class Trace {
 public:
  explicit Trace(Run& run);

  bool before_step(Size step);
  // Rank 0 writes the files one step after the last recorded step, when that step's collectives have finished:
  // rank-R.json for each rank R, and all.json for all ranks. If that fails, it logs a warning and there is no trace.
  bool after_step(Size step);
  // Stops recording. Call it when no more steps follow.
  void stop();
  // Stops recording. If no trace was written yet, writes the recorded steps or logs that there are no recorded steps.
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
