// What a step (of training, an evaluation, ...) allocates, when it lets go, and where each block lies in one arena.
// Shapes are static, so one run on shapes alone tells all of it, and the placement is made before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/memory/memory.h"

namespace lt {

// One block of a step. Times count the step's allocations and frees, in order: two blocks may share addresses
// where the time of one ends at or before the other's begins.
struct Lifetime {
  Size bytes = 0;  // a multiple of kAllocationAlignment
  std::int64_t begin = 0, end = 0;
  MemoryOwner owner = MemoryOwner::activations;
  std::string operation;  // what allocated it, for people
};

// The most bytes that live at one time: no arena can be smaller.
Size most_live_bytes(const std::vector<Lifetime>& lifetimes);

// What an allocator would take from the system that keeps each freed block for the next request of the same size.
Size bytes_without_arena(const std::vector<Lifetime>& lifetimes);

// A place for each block in one arena, so that blocks that live at the same time do not overlap.
struct Packing {
  std::vector<Size> offsets;  // multiples of kAllocationAlignment
  Size bytes = 0;             // of the arena
};

// Greedy placement: blocks one by one, each into the lowest gap, or the smallest, that its neighbours in time leave.
// Several orders are tried and the smallest arena is taken; the result depends on the lifetimes alone. Finding the
// optimum is NP-hard (Garey & Johnson 1979, dynamic storage allocation).
Packing pack(const std::vector<Lifetime>& lifetimes);

struct MemoryPlan {
  std::string name;
  std::vector<Lifetime> lifetimes;
  Packing packing;
};

}  // namespace lt
