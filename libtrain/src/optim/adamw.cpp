// AdamW as an optimizer row.
#include "kernels/adamw.h"

#include <fmt/format.h>

#include "libtrain/error.h"
#include "libtrain/optim/optimizer.h"
#include "optim/row.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt {

AdamW::operator Optimizer() const {
  optim::require_from_0("AdamW::weight_decay", weight_decay);
  if (!(eps > 0)) {
    throw UsageError("optim", fmt::format("AdamW::eps: expected a number above 0, got {}", eps));
  }
  const kernels::AdamWFactors factors{beta1, beta2, eps, weight_decay};
  Optimizer row{"adamw", {{"m", state_dtype}, {"v", state_dtype}}, {beta1, beta2}, {}, lr, clip, masters, {}};
  row.update = [factors](const UpdateRange& range) {
    tensor::dispatch(range.weights.device(), [&](auto stream) {
      kernels::AdamWRange arrays{
          range.weights.data(), range.states[0].data(),   range.states[1].data(), range.gradient.data<float>(), nullptr,
          DType::bf16,          range.weights.elements(), range.decayed};
      arrays.w_dtype = range.weights.dtype(), arrays.state_dtype = range.states[0].dtype();
      arrays.rounding = range.rounding;
      if (range.copy.defined()) arrays.copy_N = range.copy.data(), arrays.copy_dtype = range.copy.dtype();
      kernels::adamw_update(stream, arrays, factors, range.numbers);
    });
  };
  return row;
}

}  // namespace lt
