// Which runs have the same bits. docs/explanation/numerics.md has the table.
#pragma once

#include <vector>

#include "libtrain/api.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// Which runs have equal losses, gradient norms and weights. Each value includes those before it.
enum class Determinism : unsigned char {
  off,      // on CPUs, the same run twice
  on,       // the same run twice, and all strategies at one number of ranks
  elastic,  // all rank counts of elastic_rank_counts()
};

// The most ranks of an elastic run.
inline constexpr int kMostElasticRanks = 64;
// Returns the rank counts of an elastic run whose global batch has this many micro-batches, in ascending order: the
// powers of two up to kMostElasticRanks that divide it. All give the same bits.
std::vector<int> elastic_rank_counts(Size micro_batches);

}  // namespace lt
