// The state of a run, in words and as the table of `report --follow`.
#pragma once

#include <string>
#include <vector>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// "running", "complete", "stopped by SIGTERM", "failed". A killed run counts as running until its metrics.jsonl was
// silent for ten seconds and five steps; then it is "no new line since ...".
std::string state_of(const RunData& run);

// One row for each run: state, progress, rate, remaining time, last checkpoint, restarts, slowest rank.
Table now(const std::vector<RunData>& runs);

// True if the last attempt of every run has recorded its end (end_of()). An end by a signal must be a minute old,
// because a supervisor may start the run again.
bool all_ended(const std::vector<RunData>& runs);

}  // namespace lt::report
