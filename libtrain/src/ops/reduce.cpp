// sum and mean over one dimension or all.
#include "kernels/reduce.h"
#include "kernels/elementwise.h"
#include "libtrain/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

// The tensor as [outer, reduced, inner].
struct Middle {
  Size outer = 1, reduced = 1, inner = 1;
};

Middle around(const Tensor& x, int dim) {
  Middle m;
  for (int i = 0; i < x.dims(); ++i) (i < dim ? m.outer : i == dim ? m.reduced : m.inner) *= x.dim(i);
  return m;
}

struct SumMiddle final : Function {
  const char* name() const override { return "sum"; }

  Slot x_;
  Middle m_;

  Tensor forward(const Tensor& x, const Middle& m, const Shape& shape) {
    x_ = x.gradient_slot(), m_ = m;
    const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    dispatch(y.device(), [&](auto stream) {
      kernels::sum_middle(stream, y.dtype(), y.data(), x.data(), m.outer, m.reduced, m.inner, false);
    });
    return y;
  }

  // Every element of the reduced dimension receives the same gradient.
  void backward(const Tensor& dy) override {
    kernels::Strided space;
    space.dims = 3;
    space.sizes = {m_.outer, m_.reduced, m_.inner};
    space.out = {m_.reduced * m_.inner, m_.inner, 1};
    space.a = {m_.inner, 0, 1};
    GradientOutput dx(x_, dy.dtype());
    dispatch(dy.device(), [&](auto stream) {
      kernels::copy_strided(stream, dy.dtype(), space, dx.data(), dy.data(), dx.accumulate());
    });
    dx.finish();
  }
};

Shape without(const Tensor& x, int dim) {
  std::vector<Size> sizes;
  for (int i = 0; i < x.dims(); ++i) {
    if (i != dim) sizes.push_back(x.dim(i));
  }
  return Shape(std::span<const Size>(sizes));
}

}  // namespace

Tensor sum(const Tensor& x, int dim) {
  require_float("sum", "x", x);
  dim = require_dim("sum", x, dim);
  return record<SumMiddle>(x, around(x, dim), without(x, dim));
}

Tensor sum(const Tensor& x) {
  require_float("sum", "x", x);
  return record<SumMiddle>(x, Middle{1, x.elements(), 1}, Shape{});
}

Tensor mean(const Tensor& x, int dim) {
  require_float("mean", "x", x);
  dim = require_dim("mean", x, dim);
  if (x.dim(dim) == 0) fail("mean", "x", "at least one element", to_string(x.shape()));
  return scale(sum(x, dim), 1.0 / static_cast<double>(x.dim(dim)));
}

Tensor mean(const Tensor& x) {
  require_float("mean", "x", x);
  if (x.elements() == 0) fail("mean", "x", "at least one element", to_string(x.shape()));
  return scale(sum(x), 1.0 / static_cast<double>(x.elements()));
}

}  // namespace lt::ops
