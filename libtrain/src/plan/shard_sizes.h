// The ranks per node of a plan, and the sizes of shard groups that it tries.
#pragma once

#include <vector>

#include "libtrain/plan/planner.h"

namespace lt::planner {

// Returns machine.ranks_per_node or, if that is not set, the device table's value.
int ranks_per_node(const PlanMachine& machine);

// Returns the ranks of one, two, four, ... whole nodes that divide `ranks`, then 0, which means all ranks. On one node
// only 0.
std::vector<int> shard_sizes(int ranks, int ranks_per_node);

}  // namespace lt::planner
