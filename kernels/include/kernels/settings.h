// Settings of the process, the same on all ranks of a run, set before its memory is planned. All are off at first.
#pragma once

namespace lt::kernels {

// Whether kernels give the same bits each time. On the CPU they always do. On CUDA: matrix products take the algorithm
// that cuBLASLt puts first, none is chosen by its measured time; the backward of cuDNN's attention writes the gradients
// of the scores, T x T, to memory, and is slower.
void set_deterministic(bool on);
bool deterministic();

// Whether products of f32 matrices on CUDA round their operands to TF32 (10 bits of mantissa, as f16 has), which tensor
// cores take. Sums stay in f32.
void set_tf32(bool on);
bool tf32();

}  // namespace lt::kernels
