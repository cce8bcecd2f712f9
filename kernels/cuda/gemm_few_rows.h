// Products of up to kMostFewRows rows with a transposed matrix of constant weights, as generation needs them. Reading
// the matrix bounds their speed.
#pragma once

#include "kernels/gemm.h"

namespace lt::kernels {

inline constexpr Size kMostFewRows = 8;

// Returns false, and does nothing, for other products. Sums a row in the same order whatever M is, and keeps no state.
bool gemm_few_rows(CudaStream stream, const Gemm& g);

}  // namespace lt::kernels
