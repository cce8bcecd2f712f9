// softmax over the last dimension. Its gradient needs only the output.
#include "kernels/loss.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Softmax final : Function {
  const char* name() const override { return "softmax"; }

  Slot x_;
  Tensor y_;

  Tensor forward(const Tensor& x) {
    x_ = x.gradient_slot();
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    tensor::dispatch(y.device(),
                     [&](auto s) { kernels::softmax_forward(s, y.dtype(), y.data(), x.data(), rows(x), x.dim(-1)); });
    y_ = y.detach();
    return y;
  }

  void backward(const Tensor& dy) override {
    GradientOutput dx(x_, dy.dtype());
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::softmax_backward(s, dy.dtype(), dx.data(), dy.data(), y_.data(), rows(dy), dy.dim(-1), dx.accumulate());
    });
    dx.finish();
  }
};

}  // namespace

Tensor softmax(const Tensor& x) {
  require_float("softmax", "x", x);
  require_min_dims("softmax", "x", x, 1);
  return record<Softmax>(x);
}

}  // namespace lt::ops
