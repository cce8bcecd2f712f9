// The table of the optimizers that a configuration can name, in optim.name and in optim.groups[].optimizer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/config/config.h"
#include "libtrain/optim/optimizer.h"

namespace lt::config {

struct OptimizerChoice {
  std::string_view name;
  Optimizer (*make)(const OptimConfig& options, double weight_decay);
  std::string_view rest;  // name of the optimizer for parameters that this one cannot update; empty: it updates all
};

// Begins optim.name in the configuration of a run whose program has optimizers of its own; their names follow.
inline constexpr std::string_view kOwnOptimizers = "own:";

std::vector<std::string> optimizer_names();
// Returns the row of `name`, then the row of its `rest` if it has one. `name` must be in the table.
std::vector<const OptimizerChoice*> rows_of_optimizer(std::string_view name);
inline bool has_own_optimizers(const Config& config) { return config.optim.name.starts_with(kOwnOptimizers); }
// The name of the group's optimizer.
inline const std::string& optimizer_of(const OptimGroupConfig& group, const OptimConfig& optim) {
  return group.optimizer.empty() ? optim.name : group.optimizer;
}

}  // namespace lt::config
