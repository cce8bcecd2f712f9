// Words of kernels::LossScaleState in a tensor of f32.
#include "parallel/loss_scaling.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/memory.h"

namespace lt {
namespace {

constexpr Size kWords = sizeof(kernels::LossScaleState) / sizeof(float);

float word_of(Size count) { return std::bit_cast<float>(static_cast<std::int32_t>(count)); }
Size count_of(float word) { return std::bit_cast<std::int32_t>(word); }

}  // namespace

LossScaling::LossScaling(DType dtype, Device device) {
  if (dtype != DType::f16) return;
  const MemoryScope owner(MemoryOwner::workspace);
  state_ = Tensor::zeros({kWords}, DType::f32, device);
  fill(state_.narrow(0, 0, 1), kernels::kFirstLossScale);
}

LossGradient LossScaling::gradient(double factor) const {
  return state_.defined() ? LossGradient(factor, state_.narrow(0, 0, 1)) : LossGradient(factor);
}

void LossScaling::copy_scale(const Tensor& number) const {
  if (state_.defined()) copy(number, state_.narrow(0, 0, 1));
}

kernels::LossScaleState* LossScaling::on_device() const {
  return state_.defined() ? static_cast<kernels::LossScaleState*>(state_.data()) : nullptr;
}

LossScale LossScaling::read() const {
  if (!state_.defined()) return {};
  const std::vector<float> words = state_.to_vector<float>();
  return {words[0], count_of(words[1]), count_of(words[2])};
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
  copy(state_, Tensor::from(std::vector<float>{scale.scale, word_of(scale.steps), word_of(scale.skipped)}, {kWords}));
}

}  // namespace lt
