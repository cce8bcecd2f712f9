// The memory plan of a step (of training, of an evaluation, ...): the blocks that it allocates, their lifetimes, and
// the place of each in the arena, one preallocated block that holds all memory of the step. Shapes are static, so a
// rehearsal (a dry run of the step on shapes only) determines the plan before the step first runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/memory/memory.h"

namespace LT_API lt {

// One block of a step. Times count the allocations and frees of the step, from 0. Two blocks may share addresses if
// a.end <= b.begin or b.end <= a.begin.
struct Lifetime {
  Size bytes = 0;                   // a multiple of kAllocationAlignment
  std::int64_t begin = 0, end = 0;  // times of allocation and free
  MemoryOwner owner = MemoryOwner::activations;
  std::string operation;  // name of the operation that allocated the block, for display
};

// Returns the live bytes by owner at the moment with the most live bytes. No arena can be smaller than their total.
MemoryUse fullest_moment(const std::vector<Lifetime>& lifetimes);
// Returns fullest_moment(lifetimes).total.
Size most_live_bytes(const std::vector<Lifetime>& lifetimes);

// Returns the bytes that a caching allocator would take from the system if it reused each freed block only for requests
// of the same size.
Size bytes_without_arena(const std::vector<Lifetime>& lifetimes);

// The place of every block in one arena. Blocks that live at the same time do not overlap.
struct Packing {
  std::vector<Size> offsets;  // bytes from the arena's start, one for each lifetime; multiples of kAllocationAlignment
  Size bytes = 0;             // size of the arena
};

// Places the blocks greedily: each block in turn takes the lowest or the smallest gap between the placed blocks that
// live at the same time. Tries several orders and returns the smallest arena. The result is a function of the lifetimes
// only. Finding the optimum is NP-hard (Garey & Johnson 1979, dynamic storage allocation).
Packing pack(const std::vector<Lifetime>& lifetimes);

struct MemoryPlan {
  std::string name;  // of the step, for messages
  std::vector<Lifetime> lifetimes;
  Packing packing;
};

}  // namespace lt
