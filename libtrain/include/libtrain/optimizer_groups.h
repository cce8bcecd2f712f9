// Which optimizer each parameter has: groups, of which the first that matches a parameter's name counts. Parameters
// that are frozen have none: no gradient, no state, no reduction.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/optim.h"

namespace lt {

struct OptimizerGroup {
  std::string match;  // of parameters' names, the whole of them; * stands for any text
  Optimizer optimizer;
  double lr_scale = 1;  // of the learning rate
};

// What an engine trains with. Learning rate and bound of the norm are those of all groups.
struct OptimizerGroups {
  OptimizerGroups(std::vector<OptimizerGroup> groups_, double lr_, double clip_)
      : groups(std::move(groups_)), lr(lr_), clip(clip_) {}
  // One for all parameters, with its own learning rate and bound.
  template <std::convertible_to<Optimizer> T>
  OptimizerGroups(const T& one) : groups{{"*", one}}, lr(groups[0].optimizer.lr), clip(groups[0].optimizer.clip) {}

  std::vector<OptimizerGroup> groups;
  std::vector<std::string> frozen = {};  // patterns of parameters that are not trained
  double lr;                             // until Engine::set_learning_rate()
  double clip;                           // of the global L2 norm of the mean gradient, 0 = off
};

// What a group holds of a model.
struct OptimizerGroupUse {
  const OptimizerGroup* group;
  Size tensors = 0, elements = 0;
};

// Whether `pattern`, in which * stands for any text, is all of `name`.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace lt
