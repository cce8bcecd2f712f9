// The loss scale of f16.
#include "parallel/loss_scaling.h"

#include <cmath>
#include <limits>
#include <string>

#include "libtrain/error.h"

namespace lt {

using kernels::LossScaleState;

LossScaling::LossScaling(DType dtype, Device device) {
  if (dtype != DType::f16) return;
  state_ = DeviceValue<LossScaleState>(device);
  fill(state_.member(&LossScaleState::scale), kernels::kFirstLossScale);
}

LossGradient LossScaling::gradient(double factor) const {
  return state_.defined() ? LossGradient(factor, state_.member(&LossScaleState::scale)) : LossGradient(factor);
}

void LossScaling::copy_scale(const Tensor& number) const {
  if (state_.defined()) copy(number, state_.member(&LossScaleState::scale));
}

LossScale LossScaling::read() const {
  if (!state_.defined()) return {};
  const LossScaleState state = state_.read();
  return {state.scale, state.steps, state.skipped};
}

void LossScaling::write(const LossScale& scale) const {
  if (!state_.defined()) return;
  constexpr Size kMost = std::numeric_limits<std::int32_t>::max();
  if (!(scale.scale > 0) || !std::isfinite(scale.scale) || scale.steps < 0 || scale.steps > kMost ||
      scale.skipped < 0 || scale.skipped > kMost) {
    throw UsageError("engine", "set_loss_scale: expected a positive scale and counts from 0 to 2^31 - 1, got " +
                                   std::to_string(scale.scale) + ", " + std::to_string(scale.steps) + ", " +
                                   std::to_string(scale.skipped));
  }
  state_.write({scale.scale, static_cast<std::int32_t>(scale.steps), static_cast<std::int32_t>(scale.skipped)});
}

}  // namespace lt
