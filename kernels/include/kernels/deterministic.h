// Whether kernels give the same bits each time: a setting of the process, the same on all ranks of a run, set before
// its memory is planned. On the CPU they always do.
#pragma once

namespace lt::kernels {

// On CUDA: matrix products take the algorithm that cuBLASLt puts first, none is chosen by its measured time; the
// backward of cuDNN's attention writes the gradients of the scores, T x T, to memory, and is slower. Off at first.
void set_deterministic(bool on);
bool deterministic();

}  // namespace lt::kernels
