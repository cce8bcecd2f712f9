// Groups of comparable runs: runs that do the same computation per token.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/sections.h"

namespace lt::report {

struct RunGroup {
  // Model and sequence length. If another group has the same, also the settings that differ. Empty if the runs do not
  // state the model.
  std::string name;
  std::vector<const RunData*> runs;
  std::vector<Summary> summaries;
  std::size_t base = 0;   // the reference for efficiency: the fastest run with the fewest ranks
  bool has_base = false;  // true if ranks and speed of at least one run are known
};

// Groups in the order of their first runs.
std::vector<RunGroup> group_runs(const std::vector<RunData>& runs);

// The series of a run in charts: "single" for one rank under any strategy, "zero3, shards over 2" for hybrid sharding,
// otherwise the strategy.
std::string strategy_of(const Summary& s);

// Adds the efficiency table, the scaling chart, and speeds and memory as bars.
void add_scaling(Document& document, const RunGroup& group);

// Adds the comparison in words and add_scaling() for each group, then the bottleneck of each run.
void add_groups(Document& document, const std::vector<RunData>& runs);

}  // namespace lt::report
