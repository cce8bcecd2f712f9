// Allocates the scalars of a step.
#include "parallel/step_scalars.h"

#include "parallel/flat_buffer.h"

namespace lt {

StepScalars::StepScalars(Device device, Size optimizer_groups)
    : outcome(device), update(device, optimizer_groups), rates(device) {
  fill(outcome.member(&StepOutcome::loss_scale), 1);
  fill(outcome.member(&StepOutcome::target_weight), 1);
}

void StepScalars::make_gathered(Size losses_of_all, Size partials_of_all, const std::shared_ptr<BlockSource>& windows) {
  const Device device = outcome.storage().device();
  losses = flat_zeros(losses_of_all, DType::f32, device, MemoryOwner::workspace, windows);
  partials = flat_zeros(partials_of_all, DType::f64, device, MemoryOwner::workspace, windows);
}

}  // namespace lt
