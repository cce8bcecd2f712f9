// The nodes of a plan, and which sizes of shard groups it tries.
#pragma once

#include <vector>

#include "libtrain/plan/planner.h"

namespace lt::planner {

// As the machine says, or by the table of devices where it leaves that open.
int ranks_per_node(const PlanMachine& machine);

// One, two, four, ... whole nodes, as far as these divide the ranks, then 0: all ranks. On one node only 0.
std::vector<int> shard_sizes(int ranks, int ranks_per_node);

}  // namespace lt::planner
