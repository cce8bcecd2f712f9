// The engine's side of a model's loss: checks of its terms and targets, and the count of non-ignored targets.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kernels/loss.h"
#include "libtrain/error.h"
#include "parallel/engine_impl.h"
#include "profile/activity_clock.h"
#include "tensor/dispatch.h"

namespace lt {

void Engine::Impl::require_targets(const Tensor& targets) const {
  const bool are_ids = targets.defined() && targets.dtype() == DType::i32;
  if (options.ignored_targets && !are_ids) {
    throw UsageError("engine", "batch.targets: expected i32 with EngineOptions::ignored_targets, got " +
                                   (targets.defined() ? std::string(dtype_name(targets.dtype())) : "none"));
  }
  if (options.ignored_targets || !are_ids || targets.device() != kCpu || !targets.is_contiguous()) return;
  const std::int32_t *const begin = targets.data<std::int32_t>(), *const end = begin + targets.elements();
  if (std::find(begin, end, kIgnoredTarget) == end) return;
  throw UsageError("engine", "batch.targets: expected targets that all count, found kIgnoredTarget (-100)",
                   "EngineOptions::ignored_targets allows it");
}

void Engine::Impl::require_no_terms() const {
  const auto require_zero = [](const char* name, double value) {
    if (value == 0) return;
    throw UsageError("engine", name, "0 with a model whose loss() does not call nn::cross_entropy",
                     fmt::format("{}", value));
  };
  if (options.ignored_targets) {
    throw UsageError("engine",
                     "targets that do not count (EngineOptions::ignored_targets): expected a model whose loss() calls "
                     "nn::cross_entropy, which averages over the targets of the global batch that count");
  }
  require_zero("z_loss", options.z_loss);
  require_zero("label_smoothing", options.label_smoothing);
}

void Engine::Impl::leave_gradients_to_backward() {
  form.gradients_in_forward = false;
  if (options.device.is_meta()) return;  // a rehearsal computes no numbers
  throw UsageError("engine",
                   "loss(): expected the head's loss itself, got another tensor, which no rehearsal has shown",
                   "loss() must compute the same operations in every step of the same shapes");
}

Tensor Engine::Impl::count_targets(const Tensor& own) {
  if (!options.ignored_targets) return {};
  const profile::ActivityScope activity(Activity::reduce_exposed);
  const Tensor counts = scalars.losses, own_count = counts.narrow(0, control.rank() * options.accum, options.accum);
  const Tensor weight = scalars.outcome.member(&parallel::StepReport::target_weight);
  const Size each = own.elements() / options.accum;  // of a micro-batch: few enough to be exact in f32
  tensor::dispatch(options.device, [&](auto stream) {
    kernels::count_targets(stream, own_count.template data<float>(), options.accum, own.template data<std::int32_t>(),
                           each);
  });
  control.all_gather("targets", counts, own_count).wait();
  tensor::dispatch(options.device, [&](auto stream) {
    kernels::target_weight(stream, weight.template data<float>(), counts.template data<float>(), counts.elements(),
                           kernels::all_targets(each, counts.elements()));
  });
  return weight;
}

}  // namespace lt
