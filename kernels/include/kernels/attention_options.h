// How attention runs on CUDA, as far as it is known before any device is there.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels {

// Whether cuDNN is asked at all: bf16 or f16, D a multiple of 8 up to 256. It may still refuse.
bool may_run_on_cudnn(DType dtype, const AttentionShape& shape);

// Sequences that one backward of cuDNN takes: all of them, or, in deterministic mode, as many as have score gradients
// of kScoreGradientBytes, at least one.
inline constexpr Size kScoreGradientBytes = Size{256} << 20;
Size cudnn_backward_sequences(const AttentionShape& shape, bool deterministic);

}  // namespace lt::kernels
