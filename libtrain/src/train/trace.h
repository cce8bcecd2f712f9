// The timeline of the steps that record.trace_steps asks for, written to <run.dir>/trace.
#pragma once

#include <memory>
#include <optional>

#include "libtrain/timeline.h"
#include "train/run.h"

namespace lt {

// All ranks call it around every step. The first step of a start is left out: it warms up. What before_step() and
// after_step() do is no part of a step: they return whether they did anything that takes time.
class Trace {
 public:
  explicit Trace(Run& run) : run_(run), begin_(run.steps_done() + 2), end_(begin_ + run.config.record.trace_steps) {}

  bool before_step(Size step);
  // Writes rank-R.json of each rank and all.json of all of them, by rank 0: one step after the last that is recorded,
  // in which the collectives that were on their way have arrived. Throws DataError.
  bool after_step(Size step);
  // No more steps come.
  void stop() { current_.reset(); }
  // Then writes what there is where nothing was written yet, or says that there is none.
  void finish();

 private:
  void write();

  Run& run_;
  const Size begin_, end_;  // steps [begin, end)
  bool written_ = false;
  std::shared_ptr<Timeline> timeline_;
  std::optional<TimelineScope> current_;  // while steps are recorded
};

}  // namespace lt
