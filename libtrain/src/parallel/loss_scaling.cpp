// Reads and writes the loss scale on the device.
#include "parallel/loss_scaling.h"

namespace lt::parallel {

using kernels::LossScaleState;

LossScaling::LossScaling(DType dtype, Device device) {
  if (dtype != DType::f16) return;
  state_ = tensor::DeviceValue<LossScaleState>(device);
  fill(state_.member(&LossScaleState::scale), kernels::kFirstLossScale);
}

LossGradient LossScaling::gradient(double factor) const {
  return state_.defined() ? LossGradient(factor, state_.member(&LossScaleState::scale)) : LossGradient(factor);
}

void LossScaling::copy_scale(const Tensor& number) const {
  if (state_.defined()) copy(number, state_.member(&LossScaleState::scale));
}

LossScaleState LossScaling::read() const { return state_.defined() ? state_.read() : LossScaleState{1, 0}; }

void LossScaling::write(const LossScaleState& state) const {
  if (state_.defined()) state_.write(state);
}

}  // namespace lt::parallel
