// gelu, silu and swiglu: cheap to recompute from their input.
#include "kernels/elementwise.h"
#include "libtrain/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Gelu final : Function {
  Saved x_;

  Tensor forward(const Tensor& x) {
    x_ = x;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const Tensor& x = x_.get();
    dispatch(y.device(), [&](auto s) { kernels::gelu_forward(s, y.dtype(), y.data(), x.data(), x.elements()); });
  }

  void backward(const Tensor& dy) override {
    const Tensor& x = x_.get();
    GradientOutput dx(x_.slot(), dy.dtype());
    dispatch(dy.device(), [&](auto s) {
      kernels::gelu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), x.elements(), dx.accumulate());
    });
    dx.finish();
  }
};

struct Silu final : Function {
  Saved x_;

  Tensor forward(const Tensor& x) {
    x_ = x;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const Tensor& x = x_.get();
    dispatch(y.device(), [&](auto s) { kernels::silu_forward(s, y.dtype(), y.data(), x.data(), x.elements()); });
  }

  void backward(const Tensor& dy) override {
    const Tensor& x = x_.get();
    GradientOutput dx(x_.slot(), dy.dtype());
    dispatch(dy.device(), [&](auto s) {
      kernels::silu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), x.elements(), dx.accumulate());
    });
    dx.finish();
  }
};

struct SwiGlu final : Function {
  Saved x_;

  Tensor forward(const Tensor& x) {
    x_ = x;
    const Tensor y = Tensor::empty(with_last(x, x.dim(-1) / 2), x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const Tensor& x = x_.get();
    dispatch(y.device(), [&](auto s) {
      kernels::swiglu_forward(s, y.dtype(), y.data(), x.data(), rows(y), y.dim(-1));
    });
  }

  void backward(const Tensor& dy) override {
    const Tensor& x = x_.get();
    GradientOutput dx(x_.slot(), dy.dtype());
    dispatch(dy.device(), [&](auto s) {
      kernels::swiglu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), rows(dy), dy.dim(-1), dx.accumulate());
    });
    dx.finish();
  }
};

}  // namespace

Tensor gelu(const Tensor& x) {
  require_float("gelu", "x", x);
  return record<Gelu>(x);
}

Tensor silu(const Tensor& x) {
  require_float("silu", "x", x);
  return record<Silu>(x);
}

Tensor swiglu(const Tensor& x) {
  require_float("swiglu", "x", x);
  require_min_dims("swiglu", "x", x, 1);
  if (x.dim(-1) % 2 != 0) fail("swiglu", "x", "an even last size [gate | up]", to_string(x.shape()));
  return record<SwiGlu>(x);
}

}  // namespace lt::ops
