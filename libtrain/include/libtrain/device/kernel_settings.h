// Settings for kernels that have a choice.
#pragma once

#include "libtrain/api.h"

namespace LT_API lt {

struct KernelSettings {
  // The same bits every time; CPU kernels always behave so. On CUDA, matrix products take the algorithm that cuBLASLt
  // ranks first, without timing the others; the backward pass of cuDNN's attention writes the gradients of the scores,
  // T x T, to memory, and is slower.
  bool deterministic = false;
  // On CUDA, products of f32 matrices round their operands to TF32 (10 bits of mantissa, as in f16), which tensor cores
  // take. Sums stay in f32.
  bool tf32 = false;
  // Weights do not change, as in generation: on CUDA products of few rows with them have a kernel of their own, which
  // reads the weights before earlier kernels have ended.
  bool constant_weights = false;
  // Sizes may not come again, as those of a prompt: on CUDA, matrix products are not timed for them. They take the
  // algorithm of an earlier search, or the one that cuBLASLt ranks first.
  bool varied_sizes = false;
  // Linear layers of blocks multiply in e4m3, from activations and weights in bf16 (docs/numerics.md, "FP8").
  bool fp8 = false;

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace lt
