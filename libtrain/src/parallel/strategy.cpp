// Finds strategies by name.
#include "libtrain/parallel/strategy.h"

#include "libtrain/error.h"

namespace lt {

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
