// The memory of a step (of training, an evaluation, ...): what it allocates, when it frees it, and where each block
// lies in one arena. Shapes are static, so one run on shapes alone determines all of it, and blocks are placed before
// anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/memory/memory.h"

namespace LT_API lt {

// One block of a step. Times count the step's allocations and frees, in order. Two blocks may share addresses if the
// time of one ends at or before the other's begins.
struct Lifetime {
  Size bytes = 0;  // a multiple of kAllocationAlignment
  std::int64_t begin = 0, end = 0;
  MemoryOwner owner = MemoryOwner::activations;
  std::string operation;  // what allocated it, for display
};

// The blocks that live at the fullest moment, by owner. No arena can be smaller than their total.
MemoryUse fullest_moment(const std::vector<Lifetime>& lifetimes);
// Its total.
Size most_live_bytes(const std::vector<Lifetime>& lifetimes);

// The bytes that a caching allocator would take from the system if it kept each freed block for the next request of the
// same size.
Size bytes_without_arena(const std::vector<Lifetime>& lifetimes);

// Places every block in one arena so that blocks that live at the same time do not overlap.
struct Packing {
  std::vector<Size> offsets;  // multiples of kAllocationAlignment
  Size bytes = 0;             // size of the arena
};

// Greedy placement: each block in turn takes the lowest or the smallest gap that its neighbours in time leave. The
// smallest arena of several orders wins; the result depends on the lifetimes alone. Finding the optimum is NP-hard
// (Garey & Johnson 1979, dynamic storage allocation).
Packing pack(const std::vector<Lifetime>& lifetimes);

struct MemoryPlan {
  std::string name;
  std::vector<Lifetime> lifetimes;
  Packing packing;
};

}  // namespace lt
