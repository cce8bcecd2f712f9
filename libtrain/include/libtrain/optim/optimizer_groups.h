// Which optimizer each parameter has: groups, of which the first that matches a parameter's name counts. Parameters
// that are frozen have none: no gradient, no state, no reduction.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/optim/optimizer.h"

namespace lt {

struct OptimizerGroup {
  std::string match;    // the whole of a parameter's name; * stands for any text
  Optimizer optimizer;  // whose own lr and clip do not count
  double lr_scale = 1;  // times the learning rate of the step
};

// What an engine trains with. It throws UsageError for a row that is not whole, more than kMaxOptimizerGroups groups,
// kMaxKinds states or more, masters in some rows only, one state of two dtypes, a pattern without parameters, a group
// that gets none, a parameter that is neither frozen nor in a group, and where all are frozen. A last group "*" may get
// none, and so may one of two with the same pattern of which the first has an optimizer of matrices.
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

// What a group of an engine, which outlives it, holds of the model.
struct OptimizerGroupUse {
  const OptimizerGroup* group;
  Size tensors = 0, elements = 0;
};

// Whether `pattern`, in which * stands for any text, is all of `name`.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace lt
