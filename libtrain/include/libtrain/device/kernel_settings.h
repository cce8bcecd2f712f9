// How kernels compute where they have a choice.
#pragma once

namespace lt {

struct KernelSettings {
  // The same bits each time, which kernels of the CPU always give. On CUDA: matrix products take the algorithm that
  // cuBLASLt puts first, none is chosen by its measured time; the backward of cuDNN's attention writes the gradients of
  // the scores, T x T, to memory, and is slower.
  bool deterministic = false;
  // On CUDA products of f32 matrices round their operands to TF32 (10 bits of mantissa, as f16 has), which tensor cores
  // take. Sums stay in f32.
  bool tf32 = false;

  bool operator==(const KernelSettings&) const = default;
};

}  // namespace lt
