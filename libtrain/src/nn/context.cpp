// The context of a forward pass, and the loss and dropout functions that depend on it.
#include <string>

#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/nn/module.h"
#include "libtrain/ops/ops.h"
#include "ops/dropout.h"

namespace lt::nn {

const ForwardContext& ForwardContext::current() {
  static const ForwardContext none;
  const ForwardContext* const current = Context::current().forward;
  return current != nullptr ? *current : none;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  return ops::cross_entropy(logits, targets, ForwardContext::current().loss);
}

Tensor dropout(const Tensor& x, double p, std::string_view site) {
  // Evaluation and generation record nothing and drop nothing. A recomputed unit runs under the context of its first
  // forward.
  if (p == 0 || !ForwardContext::current().training) return x;
  if (x.dims() == 0) throw UsageError("nn", "dropout: x: expected samples in its first dimension, got a scalar");
  if (x.elements() == 0) return x;
  const ForwardContext& context = ForwardContext::current();
  if (context.samples != 0 && x.dim(0) != context.samples) {
    throw UsageError("nn", "dropout: x: expected the batch's " + std::to_string(context.samples) +
                               " samples in its first dimension, got shape " + to_string(x.shape()));
  }
  const auto per_sample = static_cast<std::uint64_t>(x.elements() / x.dim(0));
  return ops::dropout(x, static_cast<float>(p), derive_key(context.seed, site),
                      kernels::FirstElement{context.first_sample * per_sample, context.samples_before, per_sample});
}

}  // namespace lt::nn
