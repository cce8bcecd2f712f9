// gather and where: elements that are picked by numbers.
#include "kernels/indexing.h"

#include "libtrain/ops/ops.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Gather final : Function {
  const char* name() const override { return "gather"; }

  Slot x_;
  Tensor index_;
  kernels::Middle m_{};
  Size K_ = 0;

  Tensor forward(const Tensor& x, const kernels::Middle& m, Size K, const Tensor& index) {
    x_ = x.gradient_slot(), index_ = index, m_ = m, K_ = K;
    const Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
    dispatch(y.device(), [&](auto s) {
      kernels::gather(s, y.dtype(), y.data(), x.data(), index.template data<std::int32_t>(), m, K);
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, gradient_dtype(dy.dtype()));
    dispatch(dy.device(), [&](auto s) {
      kernels::gather_backward(s, dy.dtype(), dx.data(), dx.accumulate(), dy.data(),
                               index_.template data<std::int32_t>(), m_, K_);
    });
    dx.finish();
  }
};

struct Where final : Function {
  const char* name() const override { return "where"; }

  Tensor condition_;
  Slot a_, b_;

  Tensor forward(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& shape) {
    condition_ = expanded(condition, shape), a_ = a.gradient_slot(), b_ = b.gradient_slot();
    const Tensor y = Tensor::empty(shape, a.dtype(), a.device());
    select(y, expanded(a, shape), expanded(b, shape));
    return y;
  }

  // An undefined a or b stands for zeros.
  void select(const Tensor& y, const Tensor& a, const Tensor& b) const {
    dispatch(y.device(), [&](auto s) {
      kernels::select(s, y.dtype(), y.data(), condition_.template data<std::int32_t>(),
                      a.defined() ? a.data() : nullptr, b.defined() ? b.data() : nullptr, y.elements());
    });
  }

  void backward(const Tensor& dy) override {
    for (const bool first : {true, false}) {
      const Slot& slot = first ? a_ : b_;
      if (slot == nullptr) continue;
      const Tensor gradient = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
      select(gradient, first ? dy : Tensor(), first ? Tensor() : dy);
      reduce_to_slot(slot, gradient);
    }
  }
};

}  // namespace

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  require_float("gather", "x", x);
  require_i32("gather", "index", index);
  dim = require_dim("gather", x, dim);
  if (index.device() != x.device()) fail("gather", "index", to_string(x.device()), to_string(index.device()));
  Shape expected = x.shape();
  expected[dim] = index.dims() == x.dims() ? index.dim(dim) : 1;
  require_shape("gather", "index", index, expected);
  return record<Gather>(x, middle_of(x, dim), index.dim(dim), index);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_i32("where", "condition", condition);
  require_float("where", "a", a);
  require_like("where", "b", b, a);
  if (condition.device() != a.device()) {
    fail("where", "condition", to_string(a.device()), to_string(condition.device()));
  }
  const Shape shape = broadcast_shape("where", broadcast_shape("where", a, b), condition.shape());
  return record<Where>(condition, a, b, shape);
}

}  // namespace lt::ops
