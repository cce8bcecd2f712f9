// Settings that choose between variants of kernels.
#pragma once

#include "libtrain/api.h"

namespace LT_API lt {

struct KernelSettings {
  // The same inputs always give the same bits. Without it, only the backward of attention by cuDNN on CUDA may
  // vary. With it, libtrain's kernels compute that where they can, else cuDNN, which then writes the gradients of the
  // scores, T x T, to memory, and is slower.
  bool deterministic = false;
  // On CUDA, matmuls in f32 run on tensor cores: operands are rounded to TF32 (10 bits of mantissa, as in f16). Sums
  // stay in f32.
  bool tf32 = false;
  // The caller promises that weights do not change, as in generation. On CUDA, skinny matmuls (few rows) then use a
  // special kernel, which reads the weights before earlier kernels have ended.
  bool constant_weights = false;
  // Linear layers of blocks quantize bf16 activations and weights to e4m3 for their matmuls
  // (docs/explanation/numerics.md, "FP8").
  bool fp8 = false;

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace lt
