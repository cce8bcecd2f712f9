// The context of a forward pass, and dropout keyed by it.
#include "libtrain/module.h"
#include "libtrain/ops.h"
#include "libtrain/random.h"

namespace lt::nn {
namespace {
thread_local const ForwardContext* current_context = nullptr;
}

const ForwardContext& ForwardContext::current() {
  static const ForwardContext none;
  return current_context != nullptr ? *current_context : none;
}

ForwardScope::ForwardScope(const ForwardContext& context) : previous_(current_context), context_(context) {
  current_context = &context_;
}
ForwardScope::~ForwardScope() { current_context = previous_; }

Tensor dropout(const Tensor& x, double p, std::string_view site) {
  // Evaluation and generation record nothing and drop nothing; a unit that recomputes runs under its first context.
  if (p == 0 || !ForwardContext::current().training) return x;
  const ForwardContext& context = ForwardContext::current();
  const auto per_sample = static_cast<std::uint64_t>(x.elements() / x.dim(0));
  return ops::dropout(x, static_cast<float>(p), derive_key(context.seed, site), context.first_sample * per_sample);
}

}  // namespace lt::nn
