// How attention runs on CUDA: settings of the process, and what follows from them before any device is there.
// All ranks of a run must have the same settings, set before its memory is planned.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels {

// Which implementation runs. `automatic`: cuDNN where it takes the shape, the own kernels elsewhere. `own`: these
// alone. `cudnn`: throws InternalError with cuDNN's reason where it does not take the shape; for tests and
// measurements.
enum class AttentionPath { automatic, own, cudnn };
void set_attention_path(AttentionPath path);
AttentionPath attention_path();

// Whether cuDNN is asked at all: bf16 or f16, D a multiple of 8 up to 256. It may still refuse.
bool may_run_on_cudnn(DType dtype, const AttentionShape& shape);

// Sequences that one backward of cuDNN takes: all of them, or, in deterministic mode, as many as have score gradients
// of kScoreGradientBytes, at least one.
inline constexpr Size kScoreGradientBytes = Size{256} << 20;
Size cudnn_backward_sequences(const AttentionShape& shape);

}  // namespace lt::kernels
