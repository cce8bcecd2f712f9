// Sums in a fixed order: the bits depend on the length, not on the number of threads.
#pragma once

#include <span>

#include "kernels/common.h"

namespace lt::kernels {

// The most numbers that sum_middle() adds to one f32 sum in sequence. Longer sums are cut into runs of this length, and
// a second pass adds the runs' sums. The error of a run is largest for equal numbers, because they all round the same
// way: 8e-6 of the sum. In sums over the rows of a matrix, runs may be four times as long on GPUs, and on CPUs in the
// gradients of norms.
inline constexpr Size kLongestRun = 512;

// sum[0] = sum of x_N^2 in double, over fixed blocks of kSumBlock elements added in order. x has any floating dtype.
// With `piece` > 0, x consists of pieces of `piece` elements. Their number is a power of two, at most kMostPieces. The
// blocks of each piece are added in order, and the sums of pieces in tree order (sum_ranks()). So the sum of an array
// is the sum of its halves' sums, bit for bit.
inline constexpr Size kSumBlock = 4096, kMostPieces = 64;
inline constexpr Size kSumPack = 8;  // the most elements that a thread loads at once: 16 bytes of a two-byte type
// `partials` holds sum_blocks(N, piece) numbers. Calls that overlap on several streams must use different ones. Null:
// uses the device's scratch memory, which only its compute stream may use.
template <class S>
void sum_squares(S stream, DType dtype, double* sum, const void* x_N, Size N, double* partials = nullptr,
                 Size piece = 0);
inline constexpr Size sum_blocks(Size N, Size piece = 0) {
  return piece == 0 ? (N + kSumBlock - 1) / kSumBlock : N / piece * sum_blocks(piece);
}

// out[0] = scale * weight[0] * sum of x_N, summed in double in a fixed order; one dtype, f32 or f64. weight is one f32;
// null stands for 1.
template <class S>
void sum_all(S stream, DType dtype, void* out, const void* x_N, Size N, double scale, const float* weight = nullptr);

// out_OI (+)= sum over the middle dimension of x_ORI, in a fixed order, in runs in f32 (f64 for f64); out has
// out_dtype: x's dtype or gradient_dtype(dtype).
template <class S>
void sum_middle(S stream, DType out_dtype, void* out_OI, DType dtype, const void* x_ORI, const MiddleShape& x,
                bool accumulate);

// y_ORI[o, r, i] (+)= sum of x_ORI[o, 0..r, i], or of [o, r..R-1, i] with `reverse`, in that order, in f32 (f64 for
// f64).
template <class S>
void cumulative_sum(S stream, DType dtype, void* y_ORI, const void* x_ORI, const MiddleShape& x, bool reverse,
                    bool accumulate);

// out_C (+)= sum of the R rows of x_RC; out has out_dtype: x's dtype or gradient_dtype(dtype). For bias gradients.
template <class S>
void sum_rows(S stream, DType out_dtype, void* out_C, DType dtype, const void* x_RC, Size R, Size C, bool accumulate);

// For reduce-scatter: y_N = (x[0]_N + ... + x[ranks-1]_N) + addends[0]_N + ... , added in f32 (f64 for f64) and rounded
// once to y_dtype, which the addends have too; both dtypes are f32, f64 or bf16. The x are added in tree order:
// ((x[0] + x[1]) + (x[2] + x[3])) + ..., pairs, then pairs of pairs; the last of an odd number goes up unchanged. The
// addends follow one after another. y may be one of the addends, and one of the x if the dtypes are equal. At
// most kMostAddends addends and, on CUDA, kMostSummedRanks ranks. If `squares` is not null, squares[0] = sum of y_N^2
// in double, over blocks of kSumBlock elements, and `partials` holds sum_blocks(N) numbers. On CUDA several calls may
// compute one y in slices, in order, with the bits of one call. All slices are multiples of kSumPack elements, and all
// but the last are multiples of kSumBlock. y_N, x and N then describe the slice. `partials` is shared by all slices,
// and `blocks_before` is the number of its blocks that earlier calls have written. Only the last call has `squares`.
inline constexpr int kMostAddends = 32;
template <class S>
void sum_ranks(S stream, DType y_dtype, void* y_N, DType x_dtype, const void* const* x, int ranks, Size N,
               std::span<const void* const> addends, double* squares = nullptr, double* partials = nullptr,
               Size blocks_before = 0);

}  // namespace lt::kernels
