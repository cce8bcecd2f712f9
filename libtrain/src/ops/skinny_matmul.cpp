// Skinny matmuls (few rows) after a norm, as generation runs for each token. On CUDA without a tape one kernel computes
// both; otherwise the norm and the matmul run separately.
#include "kernels/skinny_matmul.h"

#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

bool is_one_kernel(const Tensor& x) {
  const Context& context = Context::current();
  return context.kernels.constant_weights && context.tape == nullptr && target_of(x.device()) == DeviceType::cuda &&
         kernels::supports_skinny_matmul(x.dtype(), rows(x), x.dim(-1));
}

Tensor multiply_normed(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& weight, const Tensor& bias,
                       bool gated) {
  const Size columns = weight.dim(0) / (gated ? 2 : 1);
  const Tensor y = Tensor::empty(with_last(x, columns), x.dtype(), x.device());
  profile::count_matmul(rows(x), weight.dim(0), weight.dim(1));
  tensor::dispatch(x.device(), [&]<class S>(S s) {
    if constexpr (std::is_same_v<S, CudaStream>) {
      kernels::skinny_matmul(s, {.dtype = x.dtype(),
                                 .M = rows(x),
                                 .N = columns,
                                 .K = weight.dim(1),
                                 .d_MN = y.data(),
                                 .a_MK = x.data(),
                                 .b = weight.data(),
                                 .bias_N = bias.defined() ? bias.data() : nullptr,
                                 .norm_w_K = norm_weight.data(),
                                 .norm_eps = eps,
                                 .gated = gated});
    }
  });
  return y;
}

}  // namespace

Tensor rms_norm_linear(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& weight,
                       const Tensor& bias) {
  check_norm("rms_norm_linear", "norm_weight", x, norm_weight);
  check_linear("rms_norm_linear", x, "weight", weight, "bias", bias);
  if (is_one_kernel(x)) return multiply_normed(x, norm_weight, eps, weight, bias, false);
  return linear(rms_norm(x, norm_weight, eps), weight, bias);
}

Tensor rms_norm_swiglu(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& gate_up) {
  check_norm("rms_norm_swiglu", "norm_weight", x, norm_weight);
  check_linear("rms_norm_swiglu", x, "gate_up", gate_up, "", {});
  if (is_one_kernel(x) && gate_up.dim(0) % 2 == 0) return multiply_normed(x, norm_weight, eps, gate_up, {}, true);
  return swiglu(linear(rms_norm(x, norm_weight, eps), gate_up));
}

}  // namespace lt::ops
