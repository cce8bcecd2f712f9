// Checks targets, and computes the factor that turns a mean over all targets into a mean over non-ignored targets.
#pragma once

#include <string_view>

#include "libtrain/ops/ops.h"

namespace lt::ops {

// Throws UsageError unless `targets` has one i32 for each row of `x`, and if an option is out of range. `name`: the
// name of `x` in the error.
void require_targets(std::string_view op, const Tensor& targets, const char* name, const Tensor& x,
                     const LossOptions& options);

// Returns options.weight if it is defined. Otherwise [1], f32: targets / non-ignored targets; undefined, which means 1,
// unless options.may_ignore.
Tensor weight_of(const LossOptions& options, const Tensor& targets);

inline const float* weight_data(const Tensor& weight) {
  return weight.defined() ? weight.data_or_null<float>() : nullptr;
}

}  // namespace lt::ops
