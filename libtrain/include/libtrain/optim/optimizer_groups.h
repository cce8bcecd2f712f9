// Assigns an optimizer to each parameter: that of the first group with a matching pattern. Frozen parameters, and those
// outside of `trained`, have none: no gradient, no state, no reduction.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/optim/optimizer.h"

namespace LT_API lt {

struct OptimizerGroup {
  std::string match;    // must match a parameter's whole name; * stands for any text
  Optimizer optimizer;  // its own lr and clip are ignored
  double lr_scale = 1;  // multiplies the learning rate of the step
};

// The optimizers of an engine. The engine throws UsageError for: lr, clip or lr_scale below 0, not finite or
// rounded by f32 to infinity or 0, an incomplete row, more than kMaxOptimizerGroups groups, kMaxKinds states or more,
// masters in some rows only, one state with two dtypes, a pattern without parameters, a group without parameters, a
// parameter that is neither frozen nor in a group, and no parameter left to train. These groups may stay empty: "*" if
// it is the last group or has an optimizer of matrices, and one of two neighbours with the same pattern, the first with
// an optimizer of matrices, if the other is used.
struct OptimizerGroups {
  OptimizerGroups(std::vector<OptimizerGroup> groups_, double lr_, double clip_)
      : groups(std::move(groups_)), lr(lr_), clip(clip_) {}
  // One optimizer for all parameters, with its own learning rate and bound.
  template <std::convertible_to<Optimizer> T>
  OptimizerGroups(const T& one) : groups{{"*", one}}, lr(groups[0].optimizer.lr), clip(groups[0].optimizer.clip) {}

  std::vector<OptimizerGroup> groups;
  std::vector<std::string> frozen = {};   // patterns of parameters that are not trained
  std::vector<std::string> trained = {};  // patterns of the only parameters that are trained; empty: all
  double lr;                              // until Engine::set_learning_rate()
  double clip;                            // bound of the global L2 norm of the mean gradient, 0 = off
};

// A group of an engine, and how much of the model it trains. The engine must outlive it.
struct OptimizerGroupUse {
  const OptimizerGroup* group;
  Size tensors = 0, elements = 0;
  Size decayed = 0;  // number of elements of tensors of two or more dimensions, on which weight decay acts
};

// Whether `pattern`, in which * stands for any text, matches all of `name`.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace lt
