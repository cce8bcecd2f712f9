// Inverted dropout. Backward recomputes the mask from the key, so nothing is saved.
#include "ops/dropout.h"

#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Dropout final : Function {
  const char* name() const override { return "dropout"; }

  Slot x_;
  float p_ = 0;
  std::uint64_t key_ = 0;
  kernels::FirstElement first_;

  Tensor forward(const Tensor& x, float p, std::uint64_t key, const kernels::FirstElement& first) {
    x_ = x.gradient_slot(), p_ = p, key_ = key, first_ = first;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::dropout(s, {y.dtype(), x.elements(), y.data(), x.data(), p, key, first});
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, dy.dtype());
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::dropout(s, {.dtype = dy.dtype(),
                           .N = dy.elements(),
                           .y_N = dx.data(),
                           .x_N = dy.data(),
                           .p = p_,
                           .key = key_,
                           .first = first_,
                           .accumulate = dx.accumulate()});
    });
    dx.finish();
  }
};

}  // namespace

Tensor dropout(const Tensor& x, float p, std::uint64_t key, const kernels::FirstElement& first) {
  require_float("dropout", "x", x);
  if (!(p >= 0 && p < 1)) fail("dropout", "p", "a number in [0, 1)", std::to_string(p));
  return p == 0 ? x : record<Dropout>(x, p, key, first);
}

Tensor dropout(const Tensor& x, float p, std::uint64_t key, std::uint64_t first) {
  return dropout(x, p, key, kernels::FirstElement{first});
}

}  // namespace lt::ops
