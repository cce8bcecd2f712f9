// The operations sum and mean, over one dimension or all, and cumulative_sum.
#include "kernels/reduce.h"

#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

using kernels::MiddleShape;

// y = factor * sum over the middle dimension, rounded once to y's dtype.
struct SumMiddle final : Function {
  const char* name() const override { return "sum"; }

  Slot x_;
  MiddleShape m_{};
  double factor_ = 1;

  Tensor forward(const Tensor& x, const MiddleShape& m, const Shape& shape, double factor) {
    x_ = x.gradient_slot(), m_ = m, factor_ = factor;
    const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    const bool exact = factor == 1 || kernels::gradient_dtype(x.dtype()) == x.dtype();
    const Tensor sum = exact ? y : Tensor::empty(shape, kernels::gradient_dtype(x.dtype()), x.device());
    tensor::dispatch(y.device(), [&](auto stream) {
      kernels::sum_middle(stream, sum.dtype(), sum.data(), x.dtype(), x.data(), m, false);
    });
    multiply(sum, sum, factor);
    if (!exact) copy(y, sum);
    return y;
  }

  static void multiply(const Tensor& y, const Tensor& x, double factor) {
    if (factor == 1) return;
    tensor::dispatch(y.device(), [&](auto stream) {
      kernels::scale(stream, y.dtype(), y.data(), x.data(), factor, y.elements(), false);
    });
  }

  // Every element of the reduced dimension receives the same gradient.
  void backward(const Tensor& dy) override {
    multiply(dy, dy, factor_);
    kernels::Strided space;
    space.dims = 3;
    space.sizes = {m_.O, m_.R, m_.I};
    space.out = {m_.R * m_.I, m_.I, 1};
    space.a = {m_.I, 0, 1};
    GradientOutput dx(x_, dy.dtype());
    tensor::dispatch(dy.device(), [&](auto stream) {
      kernels::copy_strided(stream, dy.dtype(), space, dx.data(), dy.data(), dx.accumulate());
    });
    dx.finish();
  }
};

Tensor cumulated(const Tensor& x, const MiddleShape& m, bool reverse) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  tensor::dispatch(y.device(), [&](auto stream) {
    kernels::cumulative_sum(stream, y.dtype(), y.data(), x.data(), m, reverse, false);
  });
  return y;
}

struct CumulativeSum final : Function {
  const char* name() const override { return "cumulative_sum"; }

  Slot x_;
  MiddleShape m_{};

  Tensor forward(const Tensor& x, const MiddleShape& m) {
    x_ = x.gradient_slot(), m_ = m;
    return cumulated(x, m, false);
  }
  // Element r contributes to the sums from r on.
  void backward(const Tensor& dy) override { x_->add(cumulated(dy, m_, true)); }
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
  return record<SumMiddle>(x, middle_of(x, dim), without(x, dim), 1.0);
}

Tensor sum(const Tensor& x) {
  require_float("sum", "x", x);
  return record<SumMiddle>(x, MiddleShape{1, x.elements(), 1}, Shape{}, 1.0);
}

Tensor mean(const Tensor& x, int dim) {
  require_float("mean", "x", x);
  dim = require_dim("mean", x, dim);
  if (x.dim(dim) == 0) fail("mean", "x", "at least one element", to_string(x.shape()));
  return record<SumMiddle>(x, middle_of(x, dim), without(x, dim), 1.0 / static_cast<double>(x.dim(dim)));
}

Tensor mean(const Tensor& x) {
  require_float("mean", "x", x);
  if (x.elements() == 0) fail("mean", "x", "at least one element", to_string(x.shape()));
  return record<SumMiddle>(x, MiddleShape{1, x.elements(), 1}, Shape{}, 1.0 / static_cast<double>(x.elements()));
}

Tensor cumulative_sum(const Tensor& x, int dim) {
  require_float("cumulative_sum", "x", x);
  return record<CumulativeSum>(x, middle_of(x, require_dim("cumulative_sum", x, dim)));
}

}  // namespace lt::ops
