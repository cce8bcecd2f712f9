// gelu_ffn: gelu(x W1^T + b1) W2^T + b2 + residual as one operation, so that GELU and its gradient can be fused into
// the neighbouring matmuls. The gradient of the hidden values overwrites their storage.
#include "kernels/elementwise.h"
#include "libtrain/memory/memory.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "ops/quantized.h"
#include "profile/activity_clock.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct GeluFfn final : Function {
  const char* name() const override { return "gelu_ffn"; }

  Saved x_, up_, down_;
  Slot up_bias_, down_bias_, residual_;
  Tensor pre_, hidden_;  // before and after GELU; backward recomputes hidden_ if the tape keeps no values

  Tensor forward(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                 const Tensor& residual) {
    x_ = x, up_ = up, down_ = down;
    up_bias_ = up_bias.gradient_slot(), down_bias_ = down_bias.gradient_slot(), residual_ = residual.gradient_slot();
    pre_ = Tensor::empty(with_last(x, up.dim(0)), x.dtype(), x.device());
    hidden_ = Tensor::empty(pre_.shape(), x.dtype(), x.device());
    kernels::Gemm matmul = linear_matmul(hidden_, x, up, up_bias);
    matmul.gelu_input_MN = pre_.data_or_null();
    multiply(x.device(), matmul);
    const Tensor y = Tensor::empty(with_last(x, down.dim(0)), x.dtype(), x.device());
    matmul = linear_matmul(y, hidden_, down, down_bias);
    if (residual.defined()) matmul.add_MN = residual.data_or_null();
    multiply(x.device(), matmul);
    if (Context::current().tape == nullptr || !Context::current().tape->keeps_values()) hidden_ = Tensor();
    return y;
  }

  // Weight gradients come first, so that their reduction can start early.
  void backward(const Tensor& dy) override {
    if (!hidden_.defined()) recompute_hidden();
    add_parameter_gradients(down_.slot(), down_bias_, dy, hidden_);
    const Tensor dpre = hidden_;
    profile::count_traffic(2 * dpre.bytes());
    multiply(dy.device(), {.M = rows(dy),
                           .N = dpre.dim(-1),
                           .K = dy.dim(-1),
                           .a = dy.data_or_null(),
                           .b = down_.get().data_or_null(),
                           .d = dpre.data_or_null(),
                           .dtype = dy.dtype(),
                           .out = dy.dtype(),
                           .gelu_gradient_of_MN = pre_.data_or_null()});
    add_parameter_gradients(up_.slot(), up_bias_, dpre, x_);
    if (x_.slot() != nullptr) add_input_gradient(x_.slot(), dpre, up_.get());
    if (residual_ != nullptr) residual_->add(dy);
  }

  void recompute_hidden() {
    const profile::ActivityScope activity(Activity::recompute);
    hidden_ = Tensor::empty(pre_.shape(), pre_.dtype(), pre_.device());
    tensor::dispatch(pre_.device(), [&](auto s) {
      kernels::gelu_forward(s, pre_.dtype(), hidden_.data(), pre_.data(), pre_.elements());
    });
  }
};

}  // namespace

Tensor gelu_ffn(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                const Tensor& residual) {
  check_linear("gelu_ffn", x, "up", up, "up_bias", up_bias);
  require_weight("gelu_ffn", "down", down, x, up.dim(0));
  if (down_bias.defined()) {
    require_like("gelu_ffn", "down_bias", down_bias, x);
    require_shape("gelu_ffn", "down_bias", down_bias, {down.dim(0)});
  }
  if (residual.defined()) {
    require_like("gelu_ffn", "residual", residual, x);
    require_shape("gelu_ffn", "residual", residual, with_last(x, down.dim(0)));
  }
  // Quantization comes between GELU and the next matmul.
  if (multiplies_in_fp8(x, up)) return linear(gelu(linear(x, up, up_bias)), down, down_bias, residual);
  return record<GeluFfn>(x, up, up_bias, down, down_bias, residual);
}

}  // namespace lt::ops
