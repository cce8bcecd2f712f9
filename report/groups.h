// Groups of comparable runs: those in which a token is the same work.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/sections.h"

namespace lt::report {

struct RunGroup {
  // Model and sequence length, and what tells the group from another one with the same; empty if the runs state
  // neither.
  std::string name;
  std::vector<const RunData*> runs;
  std::vector<Summary> summaries;
  std::size_t base = 0;   // the reference for efficiency: the fastest run with the fewest ranks
  bool has_base = false;  // whether any run's ranks and speed are known
};

// Groups in the order of their first runs.
std::vector<RunGroup> group_runs(const std::vector<RunData>& runs);

// "single" for one rank, whatever the strategy; "zero3, shards over 2" for a hybrid, which is a series of its own.
std::string strategy_of(const Summary& s);

// Adds the efficiency table, the scaling chart, and speeds and memory as bars.
void add_scaling(Document& document, const RunGroup& group);

// Adds the comparison in words and add_scaling() for each group, then the bound of each run.
void add_groups(Document& document, const std::vector<RunData>& runs);

}  // namespace lt::report
