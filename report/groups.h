// Runs that may be held against each other: those of the same model and sequence length.
#pragma once

#include <string>
#include <vector>

#include "report/document.h"
#include "report/sections.h"

namespace lt::report {

struct RunGroup {
  std::string name;  // of the model and the sequence length; empty where the runs say neither
  std::vector<const RunData*> runs;
  std::vector<Summary> summaries;
  std::size_t base = 0;   // what efficiency is relative to: fewest ranks, and the fastest of these
  bool has_base = false;  // some run's ranks and speed are known
};

// In the order in which their first runs are given.
std::vector<RunGroup> group_runs(const std::vector<RunData>& runs);

// "single" for one rank, under any strategy.
std::string strategy_of(const Summary& s);

// The efficiency table, the scaling chart, and speeds and memory as bars.
void add_scaling(Document& document, const RunGroup& group);

// For each group what was compared in words and add_scaling(); then what bounds each run.
void add_groups(Document& document, const std::vector<RunData>& runs);

}  // namespace lt::report
