// Checks and counts targets.
#include "ops/targets.h"

#include <string>

#include "kernels/loss.h"
#include "ops/check.h"
#include "ops/loss_pass.h"
#include "tensor/dispatch.h"

namespace lt::ops {

void require_targets(std::string_view op, const Tensor& targets, const char* name, const Tensor& x,
                     const LossOptions& options) {
  require_i32(op, "targets", targets, x);
  if (targets.elements() != rows(x) || targets.elements() == 0 || x.elements() == 0) {
    fail(op, "targets", std::string("one for each row of ") + name + " " + to_string(x.shape()),
         to_string(targets.shape()));
  }
  const Tensor& weight = options.weight;
  if (weight.defined() && (weight.dtype() != DType::f32 || weight.elements() != 1 || weight.device() != x.device())) {
    fail(op, "options.weight", "one f32 on " + to_string(x.device()),
         to_string(weight.shape()) + " of " + std::string(dtype_name(weight.dtype())) + " on " +
             to_string(weight.device()));
  }
  if (!(options.z_loss >= 0)) fail(op, "options.z_loss", "at least 0", std::to_string(options.z_loss));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail(op, "options.label_smoothing", "0 to 1", std::to_string(options.label_smoothing));
  }
  if (options.pass != nullptr) options.pass->is_used = true;
}

Tensor weight_of(const LossOptions& options, const Tensor& targets) {
  if (options.weight.defined() || !options.may_ignore) return options.weight;
  const Tensor count = Tensor::empty({1}, DType::f32, targets.device()),
               weight = Tensor::empty({1}, DType::f32, targets.device());
  tensor::dispatch(targets.device(), [&](auto s) {
    kernels::count_targets(s, count.template data<float>(), 1, targets.template data<std::int32_t>(),
                           targets.elements());
    kernels::target_weight(s, weight.template data<float>(), count.template data<float>(), 1,
                           kernels::all_targets(targets.elements(), 1));
  });
  return weight;
}

}  // namespace lt::ops
