// The timeline of the steps that record.trace_steps asks for, with the kernels of those of record.profile_steps,
// written to <run.dir>/trace.
#pragma once

#include <memory>
#include <optional>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"
#include "train/run.h"

namespace lt {

// All ranks call it around every step. The first step of a start is left out: it warms up. What before_step() and
// after_step() do is no part of a step: they return whether they did anything that takes time.
class Trace {
 public:
  explicit Trace(Run& run);

  bool before_step(Size step);
  // Writes rank-R.json of each rank and all.json of all of them, by rank 0: one step after the last that is recorded,
  // in which the collectives that were on their way have arrived. Where that fails there is a warning and no trace.
  bool after_step(Size step);
  // No more steps come.
  void stop();
  // Then writes what there is where nothing was written yet, or says that there is none.
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
  bool records_kernels_ = false;          // now
  KernelRecords kernels_;
};

}  // namespace lt
