// Replaces gemm_onednn.cpp in a build without oneDNN.
#include "kernels/cpu/gemm_loops.h"

namespace lt::kernels {

bool gemm_onednn(const Gemm&) { return false; }

}  // namespace lt::kernels
