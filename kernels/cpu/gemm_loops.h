// Back ends of gemm() on the CPU.
#pragma once

#include "kernels/gemm.h"

namespace lt::kernels {

// libtrain's blocked loops, for every dtype, shape and epilogue. Each element is summed over k in blocks of a fixed
// size, so its bits depend on K and the CPU level, not on M, N or the number of threads.
void gemm_loops(const Gemm& g);

// oneDNN for f32 and bf16. Returns false, and writes nothing, if this build or processor has no fast implementation.
// Bits depend on the shape and the number of threads.
bool gemm_onednn(const Gemm& g);

}  // namespace lt::kernels
