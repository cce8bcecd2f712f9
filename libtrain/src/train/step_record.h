// The row of metrics.jsonl that describes one step.
#pragma once

#include "libtrain/engine.h"
#include "libtrain/record.h"
#include "train/run.h"

namespace lt {

// All ranks of run.control call it, after the step. Times are this rank's: `step_ms` of wall time, and its parts; the
// slowest, the mean and the peak of memory are those of all ranks.
StepRecord make_record(const Run& run, const StepResult& result, double lr, double step_ms,
                       const std::array<double, kParts>& breakdown_ms);

}  // namespace lt
