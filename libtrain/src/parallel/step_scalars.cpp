// Allocates the scalars of a step.
#include "parallel/step_scalars.h"

#include "libtrain/memory/memory.h"

namespace lt {
namespace {

Tensor zeros(Size count, DType dtype, Device device) {
  const MemoryScope owner(MemoryOwner::workspace);
  return Tensor::zeros({count}, dtype, device);
}

}  // namespace

StepScalars::StepScalars(const StepOptions& options, Size ranks, Size shard_ranks, Size units, Size groups)
    : losses(zeros(options.accum * ranks, DType::f32, options.device)),
      outcome(options.device),
      partials(zeros(shard_ranks * units, DType::f64, options.device)),
      update(options.device, groups),
      rates(options.device) {
  fill(outcome.member(&StepOutcome::loss_scale), 1);
  fill(outcome.member(&StepOutcome::target_weight), 1);
}

}  // namespace lt
