// Mean cross-entropy of logits that are given whole.
#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct CrossEntropy final : Function {
  const char* name() const override { return "cross_entropy"; }

  Saved logits_;
  Tensor targets_, lse_;

  Tensor forward(const Tensor& logits, const Tensor& targets) {
    logits_ = logits, targets_ = targets;
    const DType sums = gradient_dtype(logits.dtype());
    const Size M = rows(logits);
    lse_ = Tensor::empty({M}, sums, logits.device());
    const Tensor losses = Tensor::empty({M}, sums, logits.device());
    const Tensor loss = Tensor::empty({}, sums, logits.device());
    dispatch(logits.device(), [&](auto s) {
      kernels::cross_entropy_forward(s, logits.dtype(), losses.data(), lse_.data(), logits.data(),
                                     targets.template data<std::int32_t>(), M, logits.dim(-1));
      kernels::sum_all(s, sums, loss.data(), losses.data(), M, 1.0 / static_cast<double>(M));
    });
    return loss;
  }

  void backward(const Tensor& dy) override {
    const Tensor& logits = logits_.get();
    const Size M = rows(logits);
    GradientOutput dlogits(logits_.slot(), logits.dtype());
    dispatch(logits.device(), [&](auto s) {
      kernels::cross_entropy_backward(
          s, {logits.dtype(), M, logits.dim(-1), dlogits.data(), logits.data(), lse_.data(),
              targets_.template data<std::int32_t>(), dy.data(), 1.0 / static_cast<double>(M), dlogits.accumulate()});
    });
    dlogits.finish();
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  require_float("cross_entropy", "logits", logits);
  require_min_dims("cross_entropy", "logits", logits, 1);
  require_i32("cross_entropy", "targets", targets, logits);
  if (targets.elements() != rows(logits) || logits.elements() == 0) {
    fail("cross_entropy", "targets", "one for each row of logits " + to_string(logits.shape()),
         to_string(targets.shape()));
  }
  return record<CrossEntropy>(logits, targets);
}

}  // namespace lt::ops
