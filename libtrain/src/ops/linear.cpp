// linear: x W^T + bias + residual, with bias and residual in the matmul's epilogue. The backward matmul accumulates W's
// gradient directly into its slot.
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "ops/quantized.h"
#include "ops/quantized_linear.h"

namespace lt::ops {
namespace {

struct Linear final : Function {
  const char* name() const override { return "linear"; }

  Saved x_, weight_;
  Slot bias_, residual_;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
    x_ = x, weight_ = weight, bias_ = bias.gradient_slot(), residual_ = residual.gradient_slot();
    const Tensor y = Tensor::empty(with_last(x, weight.dim(0)), x.dtype(), x.device());
    kernels::Gemm matmul = linear_matmul(y, x, weight, bias);
    if (residual.defined()) matmul.add_MN = residual.data_or_null();
    multiply(x.device(), matmul);
    return y;
  }

  // The weight gradient comes first, so that its reduction can start early.
  void backward(const Tensor& dy) override {
    add_parameter_gradients(weight_.slot(), bias_, dy, x_);
    if (x_.slot() != nullptr) add_input_gradient(x_.slot(), dy, weight_.get());
    if (residual_ != nullptr) residual_->add(dy);
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  check_linear("linear", x, "weight", weight, "bias", bias);
  if (residual.defined()) {
    require_like("linear", "residual", residual, x);
    require_shape("linear", "residual", residual, with_last(x, weight.dim(0)));
  }
  if (multiplies_in_fp8(x, weight)) return quantized_linear(x, weight, bias, residual);
  return record<Linear>(x, weight, bias, residual);
}

}  // namespace lt::ops
