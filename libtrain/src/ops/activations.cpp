// The activations gelu, silu and swiglu. Their outputs are cheap to recompute from their inputs.
#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

// The kernels of one activation, for every device.
struct GeluKernels {
  static constexpr const char* kName = "gelu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::gelu_forward(s, y.dtype(), y.data(), x.data(), y.elements());
  }
  static void backward(auto s, const GradientOutput& dx, const Tensor& dy, const Tensor& x) {
    kernels::gelu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), dy.elements(), dx.accumulate());
  }
};

struct SiluKernels {
  static constexpr const char* kName = "silu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::silu_forward(s, y.dtype(), y.data(), x.data(), y.elements());
  }
  static void backward(auto s, const GradientOutput& dx, const Tensor& dy, const Tensor& x) {
    kernels::silu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), dy.elements(), dx.accumulate());
  }
};

struct SwiGluKernels {
  static constexpr const char* kName = "swiglu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::swiglu_forward(s, y.dtype(), y.data(), x.data(), rows(y), y.dim(-1));
  }
  static void backward(auto s, const GradientOutput& dx, const Tensor& dy, const Tensor& x) {
    kernels::swiglu_backward(s, dy.dtype(), dx.data(), dy.data(), x.data(), rows(dy), dy.dim(-1), dx.accumulate());
  }
};

// y = f(x). The gradient overwrites x's storage if nothing else needs its values.
template <class Kernels>
struct Activate final : Function {
  const char* name() const override { return Kernels::kName; }

  Saved x_;

  Tensor forward(const Tensor& x, const Shape& y_shape) {
    x_ = x;
    const Tensor y = Tensor::empty(y_shape, x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const Tensor& x = x_.get();
    dispatch(y.device(), [&](auto s) { Kernels::forward(s, y, x); });
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_.slot(), dy.dtype(), x_.reusable());
    dispatch(dy.device(), [&](auto s) { Kernels::backward(s, dx, dy, x_.get()); });
    dx.finish();
  }
};

}  // namespace

Tensor gelu(const Tensor& x) {
  require_float("gelu", "x", x);
  return record<Activate<GeluKernels>>(x, x.shape());
}

Tensor silu(const Tensor& x) {
  require_float("silu", "x", x);
  return record<Activate<SiluKernels>>(x, x.shape());
}

Tensor swiglu(const Tensor& x) {
  require_float("swiglu", "x", x);
  require_min_dims("swiglu", "x", x, 1);
  if (x.dim(-1) % 2 != 0) fail("swiglu", "x", "an even last size [gate | up]", to_string(x.shape()));
  return record<Activate<SwiGluKernels>>(x, with_last(x, x.dim(-1) / 2));
}

}  // namespace lt::ops
