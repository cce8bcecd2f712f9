// Which sizes of shard groups plans try.
#pragma once

#include <vector>

namespace lt {

// One, two, four, ... whole nodes, as far as these divide the ranks, then 0: all ranks. On one node only 0.
std::vector<int> shard_sizes(int ranks, int ranks_per_node);

}  // namespace lt
