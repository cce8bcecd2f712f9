// cast: the values of a tensor in another dtype.
#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Cast final : Function {
  const char* name() const override { return "cast"; }

  Slot x_;

  Tensor forward(const Tensor& x, DType dtype) {
    x_ = x.gradient_slot();
    const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::convert(s, y.dtype(), y.data(), x.dtype(), x.data(), x.elements(), false);
    });
    return y;
  }

  // Directly in the slot's own dtype.
  void backward(const Tensor& dy) override {
    if (x_ == nullptr) return;
    const auto [dx, accumulate] = x_->next();
    tensor::dispatch(dy.device(), [&, dx = dx, accumulate = accumulate](auto s) {
      kernels::convert(s, dx.dtype(), dx.data(), dy.dtype(), dy.data(), dy.elements(), accumulate);
    });
  }
};

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  require_float("cast", "x", x);
  if (!is_floating(dtype)) fail("cast", "dtype", "f32, f64, bf16 or f16", std::string(dtype_name(dtype)));
  return x.dtype() == dtype ? x : record<Cast>(x, dtype);
}

}  // namespace lt::ops
