// The optimizers that a configuration can name.
#include "config/optimizer_choices.h"

#include <algorithm>

#include "libtrain/error.h"

namespace lt::config {
namespace {

float f(double value) { return static_cast<float>(value); }

constexpr OptimizerChoice kChoices[] = {
    {"adamw",
     [](const OptimConfig& optim, double weight_decay) -> Optimizer {
       return AdamW{.beta1 = f(optim.beta1),
                    .beta2 = f(optim.beta2),
                    .eps = f(optim.eps),
                    .weight_decay = f(weight_decay),
                    .state_dtype = optim.state_dtype,
                    .masters = optim.master.has_value()};
     },
     ""},
    // Muon takes only the matrices of blocks.
    {"muon",
     [](const OptimConfig& optim, double weight_decay) -> Optimizer {
       return Muon{.momentum = f(optim.momentum),
                   .weight_decay = f(weight_decay),
                   .state_dtype = optim.state_dtype,
                   .masters = optim.master.has_value()};
     },
     "adamw"},
};

const OptimizerChoice& find_choice(std::string_view name) {
  const auto found = std::ranges::find(kChoices, name, &OptimizerChoice::name);
  if (found == std::end(kChoices)) throw InternalError("config", "no optimizer \"" + std::string(name) + "\"");
  return *found;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerChoice& choice : kChoices) names.emplace_back(choice.name);
  return names;
}

std::vector<const OptimizerChoice*> rows_of_optimizer(std::string_view name) {
  std::vector<const OptimizerChoice*> rows{&find_choice(name)};
  if (!rows[0]->rest.empty()) rows.push_back(&find_choice(rows[0]->rest));
  return rows;
}

}  // namespace lt::config
