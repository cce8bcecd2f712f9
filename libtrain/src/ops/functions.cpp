// The functions of an element, exp, log, sqrt, tanh, relu and sigmoid, whose outputs are cheap to recompute from their
// inputs; and those of an element and a number.
#include "kernels/functions.h"

#include <cmath>
#include <string>

#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

using kernels::ElementFunction;

constexpr const char* kNames[] = {"exp", "log", "sqrt", "tanh", "relu", "sigmoid"};  // in ElementFunction's order

template <ElementFunction kFunction>
struct ElementwiseFunction final : Function {
  static constexpr const char* kName = kNames[static_cast<std::size_t>(kFunction)];
  const char* name() const override { return kName; }

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
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::function_forward(s, kFunction, y.dtype(), y.data(), x.data(), y.elements());
    });
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_.slot(), dy.dtype(), x_.reusable());
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::function_backward(s, kFunction, dy.dtype(), dx.data(), dy.data(), x_.get().data(), dy.elements(),
                                 dx.accumulate());
    });
    dx.finish();
  }
};

template <ElementFunction kFunction>
Tensor apply(const Tensor& x) {
  require_float(ElementwiseFunction<kFunction>::kName, "x", x);
  return record<ElementwiseFunction<kFunction>>(x);
}

using kernels::NumberFunction;

// clang-format off
template <NumberFunction kFunction>
constexpr const char* kNumberName = kFunction == NumberFunction::add           ? "add"
                                    : kFunction == NumberFunction::subtract_by ? "sub"
                                    : kFunction == NumberFunction::power       ? "pow"
                                                                               : "div";
// clang-format on

template <NumberFunction kFunction>
struct FunctionOfNumber final : Function {
  const char* name() const override { return kNumberName<kFunction>; }

  double number_ = 0;
  Slot slot_;
  Saved x_;  // defined if backward needs the values

  Tensor forward(const Tensor& x, double number) {
    number_ = number, slot_ = x.gradient_slot();
    if (kernels::gradient_needs_input(kFunction)) x_ = x;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::number_function_forward(s, kFunction, y.dtype(), y.data(), x.data(), number, y.elements());
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    if (kFunction == NumberFunction::add) return slot_->add(dy);
    GradientOutput dx(slot_, dy.dtype(), x_.defined() ? x_.reusable() : Tensor());
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::number_function_backward(s, {.f = kFunction,
                                            .dtype = dy.dtype(),
                                            .dx_N = dx.data(),
                                            .dy_N = dy.data(),
                                            .x_N = x_.defined() ? x_.get().data() : nullptr,
                                            .c = number_,
                                            .N = dy.elements(),
                                            .accumulate = dx.accumulate()});
    });
    dx.finish();
  }
};

template <NumberFunction kFunction>
Tensor apply(const char* argument, const Tensor& x, double number) {
  require_float(kNumberName<kFunction>, argument, x);
  return record<FunctionOfNumber<kFunction>>(x, number);
}

}  // namespace

Tensor exp(const Tensor& x) { return apply<ElementFunction::exp>(x); }
Tensor log(const Tensor& x) { return apply<ElementFunction::log>(x); }
Tensor sqrt(const Tensor& x) { return apply<ElementFunction::sqrt>(x); }
Tensor tanh(const Tensor& x) { return apply<ElementFunction::tanh>(x); }
Tensor relu(const Tensor& x) { return apply<ElementFunction::relu>(x); }
Tensor sigmoid(const Tensor& x) { return apply<ElementFunction::sigmoid>(x); }

Tensor add(const Tensor& a, double b) { return apply<NumberFunction::add>("a", a, b); }
Tensor sub(const Tensor& a, double b) { return apply<NumberFunction::add>("a", a, -b); }
Tensor sub(double a, const Tensor& b) { return apply<NumberFunction::subtract_by>("b", b, a); }
Tensor div(const Tensor& a, double b) { return apply<NumberFunction::divide>("a", a, b); }
Tensor div(double a, const Tensor& b) { return apply<NumberFunction::divide_by>("b", b, a); }

Tensor pow(const Tensor& x, double exponent) {
  if (!std::isfinite(exponent)) fail("pow", "exponent", "a finite number", std::to_string(exponent));
  return apply<NumberFunction::power>("x", x, exponent);
}

}  // namespace lt::ops
