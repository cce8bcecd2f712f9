// Assigns each parameter the optimizer of the first group whose pattern matches it. Frozen parameters and parameters
// outside `trained` have no optimizer: no gradient, no state, no reduction.
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
  std::string match = {};    // pattern for the complete name of a parameter; * matches any text
  Optimizer optimizer = {};  // its lr and clip are ignored
  double lr_scale = 1;       // multiplies the step's learning rate
};

// The optimizers of an engine. The Engine constructor throws UsageError if
// - lr, clip or an lr_scale is negative, not finite, or nonzero and outside the range of f32;
// - there is no group, or there are more than kMaxOptimizerGroups;
// - an optimizer's row is incomplete;
// - only some rows have masters, or none has and the compute dtype is not bf16;
// - the rows have kMaxKinds or more kinds of state, or one kind with two dtypes;
// - a pattern matches no parameter, or a group gets no parameter;
// - a parameter is neither frozen nor in a group, or all parameters are frozen.
// Exceptions: a group "*" may get no parameter if it is the last or has Optimizer::matrices. In a pair of neighbours
// with one pattern, of which the first has Optimizer::matrices (such as Muon and AdamW), either may get no parameter.
struct OptimizerGroups {
  OptimizerGroups(std::vector<OptimizerGroup> groups_, double lr_, double clip_)
      : groups(std::move(groups_)), lr(lr_), clip(clip_) {}
  // One optimizer for all parameters, with its own lr and clip.
  template <std::convertible_to<Optimizer> T>
  OptimizerGroups(const T& one) : groups{{"*", one}}, lr(groups[0].optimizer.lr), clip(groups[0].optimizer.clip) {}

  std::vector<OptimizerGroup> groups;
  std::vector<std::string> frozen = {};   // patterns of parameters that are not trained
  std::vector<std::string> trained = {};  // if not empty, only parameters that match one of these patterns are trained
  double lr;                              // initial learning rate; Engine::set_learning_rate() replaces it
  double clip;                            // upper bound of the mean gradient's global L2 norm; 0 disables it
};

// How much of the model one group of an engine trains. The engine owns `group` and must outlive this.
struct OptimizerGroupUse {
  const OptimizerGroup* group;
  Size tensors = 0, elements = 0;
  Size decayed = 0;  // elements with weight decay, which are in tensors with two or more dimensions
};

// True if `pattern` matches the complete `name`. A * matches any text, also the empty one.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace lt
