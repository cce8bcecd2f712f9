// Finds strategies by name.
#include "libtrain/parallel/strategy.h"

#include "libtrain/error.h"

namespace lt {

const Strategy& find_strategy(std::string_view name) {
  std::string names;
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return strategy;
    names += (names.empty() ? "" : ", ") + std::string(strategy.name);
  }
  throw UsageError("engine", "strategy", "one of " + names, '"' + std::string(name) + '"');
}

}  // namespace lt
