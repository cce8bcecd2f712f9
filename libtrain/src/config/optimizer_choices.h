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
  std::string_view rest;  // the choice for parameters that this one does not take; empty: it takes all
};

std::vector<std::string> optimizer_names();
// The rows of `name`: its own, then that of the rest if there is one. `name` must be a choice.
std::vector<const OptimizerChoice*> rows_of_optimizer(std::string_view name);
// The name of the group's optimizer.
inline const std::string& optimizer_of(const OptimGroupConfig& group, const OptimConfig& optim) {
  return group.optimizer.empty() ? optim.name : group.optimizer;
}

}  // namespace lt::config
