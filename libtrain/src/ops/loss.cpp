// Mean cross-entropy of a full tensor of logits.
#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/targets.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct CrossEntropy final : Function {
  const char* name() const override { return "cross_entropy"; }

  Saved logits_;
  Tensor targets_, lse_, weight_;
  kernels::LossTerms terms_;

  Tensor forward(const Tensor& logits, const Tensor& targets, const LossOptions& options,
                 const kernels::IdCheck& check) {
    logits_ = logits, targets_ = targets, weight_ = weight_of(options, targets);
    terms_ = {options.z_loss, options.label_smoothing};
    const DType sums = kernels::gradient_dtype(logits.dtype());
    const Size M = rows(logits);
    lse_ = Tensor::empty({M}, sums, logits.device());
    const Tensor losses = Tensor::empty({M}, sums, logits.device());
    const Tensor loss = Tensor::empty({}, sums, logits.device());
    tensor::dispatch(logits.device(), [&](auto s) {
      kernels::cross_entropy_forward(s, {.dtype = logits.dtype(),
                                         .M = M,
                                         .V = logits.dim(-1),
                                         .losses_M = losses.data(),
                                         .lse_M = lse_.data(),
                                         .logits_MV = logits.data(),
                                         .targets_M = targets.template data<std::int32_t>(),
                                         .terms = terms_,
                                         .check = check});
      kernels::sum_all(s, sums, loss.data(), losses.data(), M, 1.0 / static_cast<double>(M), weight_data(weight_));
    });
    return loss;
  }

  void backward(const Tensor& dy) override {
    const Tensor& logits = logits_.get();
    const Size M = rows(logits);
    GradientOutput dlogits(logits_.slot(), logits.dtype());
    tensor::dispatch(logits.device(), [&](auto s) {
      kernels::cross_entropy_backward(s, {.dtype = logits.dtype(),
                                          .M = M,
                                          .V = logits.dim(-1),
                                          .dlogits_MV = dlogits.data(),
                                          .logits_MV = logits.data(),
                                          .lse_M = lse_.data(),
                                          .targets_M = targets_.template data<std::int32_t>(),
                                          .d_loss = dy.data(),
                                          .weight = weight_data(weight_),
                                          .scale = 1.0 / static_cast<double>(M),
                                          .accumulate = dlogits.accumulate(),
                                          .terms = terms_});
    });
    dlogits.finish();
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options) {
  require_float("cross_entropy", "logits", logits);
  require_min_dims("cross_entropy", "logits", logits, 1);
  require_targets("cross_entropy", targets, "logits", logits, options);
  const kernels::IdCheck check = require_ids("cross_entropy", "targets", targets, logits.dim(-1), options.may_ignore);
  return record<CrossEntropy>(logits, targets, options, check);
}

}  // namespace lt::ops
