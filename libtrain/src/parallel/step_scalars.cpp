// Allocates the scalars of a step.
#include "parallel/step_scalars.h"

#include "parallel/flat_buffer.h"

namespace lt::parallel {

StepScalars::StepScalars(Device device, Size optimizer_groups)
    : outcome(device), update(device, optimizer_groups), rates(device) {
  fill(outcome.member(&StepReport::loss_scale), 1);
  fill(outcome.member(&StepReport::target_weight), 1);
}

void StepScalars::make_gathered(Size loss_count, const std::shared_ptr<memory::BlockSource>& loss_windows,
                                Size partial_count, const std::shared_ptr<memory::BlockSource>& partial_windows) {
  const Device device = outcome.storage().device();
  losses = flat_zeros(loss_count, DType::f32, device, MemoryOwner::workspace, loss_windows);
  partials = flat_zeros(partial_count, DType::f64, device, MemoryOwner::workspace, partial_windows);
}

}  // namespace lt::parallel
