// The operations add, sub, mul, div, maximum, where and scale.
#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

// Calls kernel(stream, dtype, space, y, a, b).
template <class Kernel>
void run(const Tensor& y, const Tensor& a, const Tensor& b, Kernel kernel) {
  const auto space = space_of(y.shape(), y, a, b);
  tensor::dispatch(y.device(), [&](auto stream) { kernel(stream, y.dtype(), space, y.data(), a.data(), b.data()); });
}

struct Add final : Function {
  const char* name() const override { return "add"; }

  Slot a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    const Tensor y = Tensor::empty(broadcast_shape("add", a, b), a.dtype(), a.device());
    run(y, a, b, [](auto... call) { kernels::add(call...); });
    a_ = a.gradient_slot(), b_ = b.gradient_slot();
    return y;
  }

  void backward(const Tensor& dy) override {
    // Only one of the two slots may take ownership of dy; the other gets a copy.
    if (b_ != nullptr) {
      Tensor copy_of_dy = dy;
      if (a_ != nullptr) {
        copy_of_dy = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
        copy(copy_of_dy, dy);
      }
      reduce_to_slot(b_, copy_of_dy);
    }
    if (a_ != nullptr) reduce_to_slot(a_, dy);
  }
};

struct Sub final : Function {
  const char* name() const override { return "sub"; }

  Slot a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    const Tensor y = Tensor::empty(broadcast_shape("sub", a, b), a.dtype(), a.device());
    run(y, a, b, [](auto... call) { kernels::subtract(call...); });
    a_ = a.gradient_slot(), b_ = b.gradient_slot();
    return y;
  }

  void backward(const Tensor& dy) override {
    if (b_ != nullptr) {
      const Tensor negative = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
      tensor::dispatch(dy.device(), [&](auto stream) {
        kernels::scale(stream, dy.dtype(), negative.data(), dy.data(), -1.0, dy.elements(), false);
      });
      reduce_to_slot(b_, negative);
    }
    if (a_ != nullptr) reduce_to_slot(a_, dy);
  }
};

// Room for the gradient in the shape of dy. It is f32 (f64 for f64) where the slot has another shape, to which it will
// be summed, or another dtype. Otherwise it has the dtype of dy.
Tensor unreduced_gradient(const Slot& slot, const Tensor& dy) {
  const bool last = slot->shape == dy.shape() && slot->dtype == dy.dtype();
  return Tensor::empty(dy.shape(), last ? dy.dtype() : kernels::gradient_dtype(dy.dtype()), dy.device());
}

// Returns `x` itself if it has `dtype`, else a copy that has.
Tensor in_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  copy(y, x);
  return y;
}

struct Mul final : Function {
  const char* name() const override { return "mul"; }

  Saved a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    a_ = a, b_ = b;
    const Tensor y = Tensor::empty(broadcast_shape("mul", a, b), a.dtype(), a.device());
    multiply(y, a, b);
    return y;
  }

  static void multiply(const Tensor& y, const Tensor& a, const Tensor& b) {
    run(y, a, b, [](auto... call) { kernels::mul(call..., false); });
  }

  void backward(const Tensor& dy) override {
    for (const auto& [to, other] : {std::pair{&a_, &b_}, {&b_, &a_}}) {
      if (to->slot() == nullptr) continue;
      const Tensor gradient = unreduced_gradient(to->slot(), dy);
      multiply(gradient, in_dtype(dy, gradient.dtype()), in_dtype(other->get(), gradient.dtype()));
      reduce_to_slot(to->slot(), gradient);
    }
  }
};

struct Div final : Function {
  const char* name() const override { return "div"; }

  Saved a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    a_ = a, b_ = b;
    const Tensor y = Tensor::empty(broadcast_shape("div", a, b), a.dtype(), a.device());
    divide(y, a, b);
    return y;
  }

  static void divide(const Tensor& y, const Tensor& a, const Tensor& b) {
    run(y, a, b, [](auto... call) { kernels::divide(call...); });
  }

  void backward(const Tensor& dy) override {
    const Tensor& b = b_.get();
    if (b_.slot() != nullptr) {
      const Tensor db = unreduced_gradient(b_.slot(), dy);
      copy(db, dy);
      run(db, in_dtype(a_.get(), db.dtype()), in_dtype(b, db.dtype()),
          [](auto... call) { kernels::divide_backward(call...); });
      reduce_to_slot(b_.slot(), db);
    }
    if (a_.slot() != nullptr) {
      const Tensor da = unreduced_gradient(a_.slot(), dy);
      divide(da, in_dtype(dy, da.dtype()), in_dtype(b, da.dtype()));
      reduce_to_slot(a_.slot(), da);
    }
  }
};

struct Maximum final : Function {
  const char* name() const override { return "maximum"; }

  Saved a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    a_ = a, b_ = b;
    const Tensor y = Tensor::empty(broadcast_shape("maximum", a, b), a.dtype(), a.device());
    run(y, a, b, [](auto... call) { kernels::maximum(call...); });
    return y;
  }

  void backward(const Tensor& dy) override {
    for (const auto& [to, other] : {std::pair{&a_, &b_}, {&b_, &a_}}) {
      if (to->slot() == nullptr) continue;
      const Tensor share = unreduced_gradient(to->slot(), dy);
      copy(share, dy);
      run(share, in_dtype(to->get(), share.dtype()), in_dtype(other->get(), share.dtype()),
          [](auto... call) { kernels::maximum_backward(call...); });
      reduce_to_slot(to->slot(), share);
    }
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
    tensor::dispatch(y.device(), [&](auto s) {
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

struct Scale final : Function {
  const char* name() const override { return "scale"; }

  Slot x_;
  double alpha_ = 1;

  Tensor forward(const Tensor& x, double alpha) {
    x_ = x.gradient_slot(), alpha_ = alpha;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    tensor::dispatch(y.device(), [&](auto stream) {
      kernels::scale(stream, y.dtype(), y.data(), x.data(), alpha, x.elements(), false);
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, dy.dtype());
    tensor::dispatch(dy.device(), [&](auto stream) {
      kernels::scale(stream, dy.dtype(), dx.data(), dy.data(), alpha_, dy.elements(), dx.accumulate());
    });
    dx.finish();
  }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  require_float("add", "a", a);
  require_like("add", "b", b, a);
  return record<Add>(a, b);
}

Tensor sub(const Tensor& a, const Tensor& b) {
  require_float("sub", "a", a);
  require_like("sub", "b", b, a);
  return record<Sub>(a, b);
}

Tensor mul(const Tensor& a, const Tensor& b) {
  require_float("mul", "a", a);
  require_like("mul", "b", b, a);
  return record<Mul>(a, b);
}

Tensor div(const Tensor& a, const Tensor& b) {
  require_float("div", "a", a);
  require_like("div", "b", b, a);
  return record<Div>(a, b);
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  require_float("maximum", "a", a);
  require_like("maximum", "b", b, a);
  return record<Maximum>(a, b);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_float("where", "a", a);
  require_i32("where", "condition", condition, a);
  require_like("where", "b", b, a);
  const Shape shape = broadcast_shape("where", broadcast_shape("where", a, b), condition.shape(), "condition");
  return record<Where>(condition, a, b, shape);
}

Tensor scale(const Tensor& x, double alpha) {
  require_float("scale", "x", x);
  return record<Scale>(x, alpha);
}

}  // namespace lt::ops
