// Checks targets and finds the factor that makes a mean over all of them the mean over those that count.
#pragma once

#include <string_view>

#include "libtrain/ops/ops.h"

namespace lt::ops {

// Throws UsageError for targets that are not one i32 for each row of `x`, the argument `name`, and for options out of
// range.
void require_targets(std::string_view op, const Tensor& targets, const char* name, const Tensor& x,
                     const LossOptions& options);

// options.weight; otherwise [1], f32: targets / counted targets. Undefined, which stands for 1, if none is ignored.
Tensor weight_of(const LossOptions& options, const Tensor& targets);

inline const float* weight_data(const Tensor& weight) { return weight.defined() ? weight.data<float>() : nullptr; }

}  // namespace lt::ops
