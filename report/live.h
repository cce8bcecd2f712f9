// The state of runs in progress, for the page of `report --follow`.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// One row for each run: state, progress, rate, remaining time, last checkpoint, restarts, slowest rank.
Table now(const std::vector<RunData>& runs);

// True if the last attempt of every run has recorded its end (end_of()). An end by a signal must be a minute old,
// because a supervisor may start the run again.
bool all_ended(const std::vector<RunData>& runs);

}  // namespace lt::report
