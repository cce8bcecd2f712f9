// add, mul and scale, with broadcasting. The gradient of a broadcast input is summed over the broadcast dimensions.
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "libtrain/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

Shape broadcast_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  const Tensor& longer = a.dims() >= b.dims() ? a : b;
  Shape shape = longer.shape();
  for (int i = 1; i <= shape.dims(); ++i) {
    const Size da = i <= a.dims() ? a.dim(-i) : 1, db = i <= b.dims() ? b.dim(-i) : 1;
    if (da != db && da != 1 && db != 1)
      fail(op, "b", "a shape that broadcasts with " + to_string(a.shape()), to_string(b.shape()));
    shape[-i] = da == 1 ? db : da;
  }
  return shape;
}

// The strides of `x` inside `shape`: 0 where x is broadcast.
Size stride_in(const Tensor& x, int from_last) {
  return from_last <= x.dims() && x.dim(-from_last) != 1 ? x.strides()[-from_last] : 0;
}

kernels::Strided space_of(const Shape& shape, const Tensor& out, const Tensor& a, const Tensor& b) {
  kernels::Strided space;
  space.dims = shape.dims();
  for (int i = 1; i <= shape.dims(); ++i) {
    const auto k = static_cast<std::size_t>(shape.dims() - i);
    space.sizes[k] = shape[-i];
    space.out[k] = stride_in(out, i), space.a[k] = stride_in(a, i), space.b[k] = stride_in(b, i);
  }
  return space;
}

// Adds `gradient`, which has the broadcast shape, to the slot of an input of smaller shape.
void reduce_to_slot(const Slot& slot, Tensor gradient) {
  for (int i = 0; i < gradient.dims(); ++i) {
    const int in_slot = i - (gradient.dims() - slot->shape.dims());
    if (gradient.dim(i) == 1 || (in_slot >= 0 && slot->shape[in_slot] == gradient.dim(i))) continue;
    Size outer = 1, inner = 1;
    for (int k = 0; k < i; ++k) outer *= gradient.dim(k);
    for (int k = i + 1; k < gradient.dims(); ++k) inner *= gradient.dim(k);
    Shape reduced = gradient.shape();
    reduced[i] = 1;
    const Tensor sum = Tensor::empty(reduced, gradient.dtype(), gradient.device());
    dispatch(sum.device(), [&](auto stream) {
      kernels::sum_middle(stream, sum.dtype(), sum.data(), gradient.data(), outer, gradient.dim(i), inner, false);
    });
    gradient = sum;
  }
  slot->add(gradient.view(slot->shape));
}

struct Add final : Function {
  const char* name() const override { return "add"; }

  Slot a_, b_;

  Tensor forward(const Tensor& a, const Tensor& b) {
    const Tensor y = Tensor::empty(broadcast_shape("add", a, b), a.dtype(), a.device());
    const auto space = space_of(y.shape(), y, a, b);
    dispatch(y.device(), [&](auto stream) { kernels::add(stream, y.dtype(), space, y.data(), a.data(), b.data()); });
    a_ = a.gradient_slot(), b_ = b.gradient_slot();
    return y;
  }

  void backward(const Tensor& dy) override {
    // Only one of the two may take dy over; the other gets a copy.
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
    const auto space = space_of(y.shape(), y, a, b);
    dispatch(y.device(),
             [&](auto stream) { kernels::mul(stream, y.dtype(), space, y.data(), a.data(), b.data(), false); });
  }

  void backward(const Tensor& dy) override {
    for (const auto& [to, other] : {std::pair{&a_, &b_}, {&b_, &a_}}) {
      if (to->slot() == nullptr) continue;
      const Tensor gradient = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
      multiply(gradient, dy, other->get());
      reduce_to_slot(to->slot(), gradient);
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
    dispatch(y.device(),
             [&](auto stream) { kernels::scale(stream, y.dtype(), y.data(), x.data(), alpha, x.elements(), false); });
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, dy.dtype());
    dispatch(dy.device(), [&](auto stream) {
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

Tensor mul(const Tensor& a, const Tensor& b) {
  require_float("mul", "a", a);
  require_like("mul", "b", b, a);
  return record<Mul>(a, b);
}

Tensor scale(const Tensor& x, double alpha) {
  require_float("scale", "x", x);
  return record<Scale>(x, alpha);
}

}  // namespace lt::ops
