// The element functions exp, log, sqrt, tanh, relu and sigmoid. Their outputs are cheap to recompute from their inputs.
#include "kernels/functions.h"

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

}  // namespace

Tensor exp(const Tensor& x) { return apply<ElementFunction::exp>(x); }
Tensor log(const Tensor& x) { return apply<ElementFunction::log>(x); }
Tensor sqrt(const Tensor& x) { return apply<ElementFunction::sqrt>(x); }
Tensor tanh(const Tensor& x) { return apply<ElementFunction::tanh>(x); }
Tensor relu(const Tensor& x) { return apply<ElementFunction::relu>(x); }
Tensor sigmoid(const Tensor& x) { return apply<ElementFunction::sigmoid>(x); }

}  // namespace lt::ops
