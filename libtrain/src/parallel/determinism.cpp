// Lists the rank counts of elastic runs.
#include "libtrain/parallel/determinism.h"

namespace lt {

std::vector<int> elastic_rank_counts(Size micro_batches) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= kMostElasticRanks && micro_batches % ranks == 0; ranks *= 2) counts.push_back(ranks);
  return counts;
}

}  // namespace lt
