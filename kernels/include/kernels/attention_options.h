// Choices for attention on CUDA that can be made without a device.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels {

// Whether to try cuDNN at all: bf16 or f16, D a multiple of 8 up to 256. It may still refuse.
bool may_run_on_cudnn(DType dtype, const AttentionShape& shape);

// How many sequences one backward call of cuDNN takes: all of them, or, in deterministic mode, as many as have at most
// kScoreGradientBytes of score gradients, but at least one.
inline constexpr Size kScoreGradientBytes = Size{256} << 20;
Size cudnn_backward_sequences(const AttentionShape& shape, bool deterministic);

}  // namespace lt::kernels
