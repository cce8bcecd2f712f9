// Sums in a fixed order: the same bits for the same length, whatever the number of threads.
#pragma once

#include "kernels/common.h"
#include "kernels/indexing.h"

namespace lt::kernels {

// sum[0] = sum of x_N^2 in double, over fixed blocks of kSumBlock elements added in order. x is of any floating dtype.
inline constexpr Size kSumBlock = 4096;
// `partials` holds sum_blocks(N) numbers. Calls that overlap on several streams need one each. Null: the scratch memory
// of the device, for its compute stream alone.
template <class S>
void sum_squares(S stream, DType dtype, double* sum, const void* x_N, Size N, double* partials = nullptr);
inline constexpr Size sum_blocks(Size N) { return (N + kSumBlock - 1) / kSumBlock; }

// out[0] = scale * sum of x_N, summed in double in order; one dtype, f32 or f64.
template <class S>
void sum_all(S stream, DType dtype, void* out, const void* x_N, Size N, double scale);

// out_OI (+)= sum over the middle dimension of x_ORI, in order, in f32 (f64 for f64); out has out_dtype: x's dtype or
// gradient_dtype(dtype).
template <class S>
void sum_middle(S stream, DType out_dtype, void* out_OI, DType dtype, const void* x_ORI, const Middle& x,
                bool accumulate);

// out_C (+)= sum of the R rows of x_RC; out has out_dtype: x's dtype or gradient_dtype(dtype). For bias gradients.
template <class S>
void sum_rows(S stream, DType out_dtype, void* out_C, DType dtype, const void* x_RC, Size R, Size C, bool accumulate);

// For reduce-scatter: y_N (+)= x[0]_N + ... + x[ranks-1]_N, added in that order in f32 (f64 for f64) and rounded once
// to y_dtype. y may be one of the inputs where the dtypes are equal. On CUDA at most 4000 ranks.
template <class S>
void sum_ranks(S stream, DType y_dtype, void* y_N, DType x_dtype, const void* const* x, int ranks, Size N,
               bool accumulate);

}  // namespace lt::kernels
