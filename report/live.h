// What a page shows of runs that still go on.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// One row for each run: state, progress, rate, remaining time, last checkpoint, restarts, slowest rank.
Table now(const std::vector<RunData>& runs);

// Whether the last attempt of every run has recorded its end (end_of()). An end by a signal counts after a minute,
// because a supervisor may start the run again.
bool all_ended(const std::vector<RunData>& runs);

}  // namespace lt::report
