// linear: activation(x W^T + bias) + residual, with bias and residual in the product's epilogue.
// W's gradient is accumulated by the product straight into its slot.
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "libtrain/ops.h"
#include "libtrain/work_count.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Linear final : Function {
  const char* name() const override { return "linear"; }

  Saved x_, weight_;
  Slot bias_, residual_;
  Tensor pre_;  // x W^T + bias where an activation follows
  Size M_ = 0, N_ = 0, K_ = 0;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                 Activation activation) {
    x_ = x, weight_ = weight, bias_ = bias.gradient_slot(), residual_ = residual.gradient_slot();
    M_ = rows(x), N_ = weight.dim(0), K_ = weight.dim(1);
    const Tensor product = Tensor::empty(with_last(x, N_), x.dtype(), x.device());
    count_product(M_, N_, K_);
    dispatch(x.device(), [&](auto s) {
      kernels::gemm(s, {.M = M_,
                        .N = N_,
                        .K = K_,
                        .a = x.data(),
                        .b = weight.data(),
                        .d = product.data(),
                        .transpose_b = true,
                        .dtype = x.dtype(),
                        .out = x.dtype(),
                        .bias_N = bias.defined() ? bias.data() : nullptr,
                        .add_MN = residual.defined() ? residual.data() : nullptr});
    });
    if (activation == Activation::none) return product;
    pre_ = product;
    const Tensor y = Tensor::empty(product.shape(), product.dtype(), product.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return pre_.defined(); }
  void recompute(const Tensor& y) override {
    dispatch(y.device(), [&](auto s) { kernels::gelu_forward(s, y.dtype(), y.data(), pre_.data(), y.elements()); });
  }

  // dW = dY^T X, db = sum of dY's rows, dX = dY W. The weight comes first, so that its reduction can start.
  void backward(const Tensor& dy) override {
    const DType dtype = dy.dtype();
    if (pre_.defined()) {
      dispatch(dy.device(), [&](auto s) {
        kernels::gelu_backward(s, dtype, dy.data(), dy.data(), pre_.data(), dy.elements(), false);
      });
    }
    if (weight_.slot() != nullptr) {
      const Tensor& x = x_.get();
      const GradientTarget dw = weight_.slot()->next();
      count_product(N_, K_, M_);
      dispatch(dy.device(), [&](auto s) {
        kernels::gemm(s, {.M = N_,
                          .N = K_,
                          .K = M_,
                          .a = dy.data(),
                          .b = x.data(),
                          .d = dw.dst.data(),
                          .transpose_a = true,
                          .dtype = dtype,
                          .out = dw.dst.dtype(),
                          .accumulate = dw.accumulate});
      });
    }
    if (bias_ != nullptr) {
      const GradientTarget db = bias_->next();
      dispatch(dy.device(), [&](auto s) {
        kernels::sum_rows(s, db.dst.dtype(), db.dst.data(), dtype, dy.data(), M_, N_, db.accumulate);
      });
    }
    if (x_.slot() != nullptr) {
      const GradientTarget dx = x_.slot()->next();
      count_product(M_, K_, N_);
      const Tensor& weight = weight_.get();
      dispatch(dy.device(), [&](auto s) {
        kernels::gemm(s, {.M = M_,
                          .N = K_,
                          .K = N_,
                          .a = dy.data(),
                          .b = weight.data(),
                          .d = dx.dst.data(),
                          .dtype = dtype,
                          .out = dx.dst.dtype(),
                          .accumulate = dx.accumulate});
      });
    }
    if (residual_ != nullptr) residual_->add(dy);
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              const Tensor& residual) {
  require_float("linear", "x", x);
  require_min_dims("linear", "x", x, 1);
  require_like("linear", "weight", weight, x);
  if (weight.dims() != 2 || weight.dim(1) != x.dim(-1)) {
    fail("linear", "weight", "shape [N, " + std::to_string(x.dim(-1)) + "]", to_string(weight.shape()));
  }
  if (bias.defined()) {
    require_like("linear", "bias", bias, x);
    require_shape("linear", "bias", bias, {weight.dim(0)});
  }
  if (residual.defined()) {
    require_like("linear", "residual", residual, x);
    require_shape("linear", "residual", residual, with_last(x, weight.dim(0)));
    if (activation != Activation::none) fail("linear", "residual", "none beside an activation", "one");
  }
  return record<Linear>(x, weight, bias, residual, activation);
}

}  // namespace lt::ops
