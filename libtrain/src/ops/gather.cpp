// Gathers along a dimension by index.
#include "kernels/gather.h"

#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Gather final : Function {
  const char* name() const override { return "gather"; }

  Slot x_;
  Tensor index_;
  kernels::MiddleShape m_{};
  Size K_ = 0;

  Tensor forward(const Tensor& x, const kernels::MiddleShape& m, Size K, const Tensor& index) {
    x_ = x.gradient_slot(), index_ = index, m_ = m, K_ = K;
    const Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::gather(s, y.dtype(), y.data(), x.data(), index.template data<std::int32_t>(), m, K);
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, kernels::gradient_dtype(dy.dtype()));
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::gather_backward(s, dy.dtype(), dx.data(), dx.accumulate(), dy.data(),
                               index_.template data<std::int32_t>(), m_, K_);
    });
    dx.finish();
  }
};

}  // namespace

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  require_float("gather", "x", x);
  require_i32("gather", "index", index, x);
  dim = require_dim("gather", x, dim);
  Shape expected = x.shape();
  expected[dim] = index.dims() == x.dims() ? index.dim(dim) : 1;
  require_shape("gather", "index", index, expected);
  return record<Gather>(x, middle_of(x, dim), index.dim(dim), index);
}

}  // namespace lt::ops
