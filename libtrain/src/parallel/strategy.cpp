// Finds strategies by name.
#include "libtrain/parallel/strategy.h"

#include <string>
#include <vector>

#include "libtrain/error.h"

namespace lt {

std::vector<int> elastic_rank_counts(Size micro_batches) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= kMostElasticRanks && micro_batches % ranks == 0; ranks *= 2) counts.push_back(ranks);
  return counts;
}

const Strategy& find_strategy(std::string_view name) {
  if (name == kFsdp) return Strategy::zero3;
  std::string names;
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return strategy;
    names += std::string(strategy.name) + ", ";
  }
  names += kFsdp;
  throw UsageError("engine", "strategy", "one of " + names, '"' + std::string(name) + '"');
}

}  // namespace lt
