// Quantizes operands of matmuls to e4m3. The value of an operand's element is the stored number times its scale. Scales
// are powers of two, and dividing by them rounds nothing. So a number is rounded once, and can move to a larger scale
// without being rounded again, unless it becomes subnormal. A row with infinity or NaN has scale NaN. The NaN reaches
// the loss or the norm of the gradient, so such a step changes nothing.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/common.h"
#include "kernels/norm.h"
#include "libtrain/error.h"

namespace lt::kernels {

// Sizes of matmuls in e4m3 are multiples of this, because tensor cores load 16 bytes of a row at once.
inline constexpr Size kQuantizedMultiple = 16;
inline constexpr Size kMostQuantizedColumns = 131072;  // of a row

// Returns the scale for numbers of magnitude up to `largest` >= 0: the smallest power of two, at least 2^-126, with
// largest / scale <= 448; NaN for infinity and NaN.
constexpr float e4m3_scale(float largest) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(largest);
  if (bits >= 0x7f800000u) return std::bit_cast<float>(0x7fc00000u);
  // 448 is 1.75 x 2^8.
  const std::int32_t exponent = static_cast<std::int32_t>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent < 1 ? 1 : exponent) << 23);
}

// y_RC = x_RC / scales_R, rounded to nearest even; each row's scale is e4m3_scale() of its largest magnitude.
template <class S>
void quantize_rows(S stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C);

// Each computes an operation on bf16 numbers, rounds the result to bf16 as if it were written to memory, and then
// applies quantize_rows() to it: GELU, SwiGLU, their gradients, and the norms. The norms also write their statistics,
// and their y_RC is ignored.
template <class S>
void quantize_gelu(S stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C);
template <class S>
void quantize_gelu_backward(S stream, e4m3* dx_RC, float* scales_R, const bf16* dy_RC, const bf16* x_RC, Size R,
                            Size C);
template <class S>
void quantize_swiglu(S stream, e4m3* y_RF, float* scales_R, const bf16* x_R2F, Size R, Size F);
template <class S>
void quantize_swiglu_backward(S stream, e4m3* dx_R2F, float* scales_R, const bf16* dy_RF, const bf16* x_R2F, Size R,
                              Size F);
template <class S>
void quantize_layer_norm(S stream, e4m3* y_RC, float* scales_R, const LayerNormForward& norm);
template <class S>
void quantize_rms_norm(S stream, e4m3* y_RC, float* scales_R, const RmsNormForward& norm);
// Write the norms of bf16 numbers with the bits that quantize_layer_norm() and quantize_rms_norm() quantize, statistics
// included.
template <class S>
void write_layer_norm(S stream, const LayerNormForward& norm);
template <class S>
void write_rms_norm(S stream, const RmsNormForward& norm);

// For each entry, all of scales_N = the largest of scales_R, or NaN if one is NaN. Throws InternalError for more than
// kMostLargestScales. On CUDA R is a multiple of kQuantizedMultiple, and scales_R is aligned to 16 bytes.
struct LargestScale {
  float* scales_N;
  Size N;
  const float* scales_R;
  Size R;
};
inline constexpr std::size_t kMostLargestScales = 3;
inline void require_largest_scales(std::span<const LargestScale> all) {
  if (all.size() <= kMostLargestScales) return;
  throw InternalError("kernels", "spread_largest_scales: expected at most " + std::to_string(kMostLargestScales) +
                                     " entries, got " + std::to_string(all.size()));
}
template <class S>
void spread_largest_scales(S stream, std::span<const LargestScale> all);

// y_CR = the transpose of x's values, divided by scale[0] and rounded to nearest even. scale[0] must be at least the
// largest of scales_R. x has `dtype` e4m3 or bf16; bf16 rows are first quantized with scales_R, so that both give the
// same bits. For e4m3, also sums_C (+)= the sums over the rows of x's values in f32, unless sums_C is null. If x is the
// gradient of a linear layer's output, they are the gradient of its bias. On CUDA R and C are multiples of
// kQuantizedMultiple, and x_RC and y_CR are aligned to 16 bytes.
struct QuantizeTransposed {
  e4m3* y_CR;
  const float* scale;
  DType dtype;
  const void* x_RC;
  const float* scales_R;
  Size R, C;
  float* sums_C = nullptr;
  bool accumulate_sums = false;
};
template <class S>
void quantize_transposed(S stream, const QuantizeTransposed& q);

// Elements [begin, end) of a matrix with C columns, for quantize_rows() of matrices that are cut into stretches, such
// as the shards of ranks. begin, end and C are multiples of kQuantizedMultiple.
struct MatrixStretch {
  Size begin, end, C;
  const bf16* x;      // the first element of the stretch
  e4m3* y = nullptr;  // its place in the result
  float* rows_R;      // of the whole matrix

  // Returns the number of rows that the stretch touches.
  Size rows() const { return begin == end ? 0 : (end + C - 1) / C - begin / C; }
};
// rows_R[r] = the largest magnitude of row r within the stretch, or NaN, for the rows that it touches.
template <class S>
void largest_of_rows(S stream, std::span<const MatrixStretch> stretches);
// y = x / rows_R, rounded to nearest even; rows_R holds the scales of the rows.
template <class S>
void quantize_stretches(S stream, std::span<const MatrixStretch> stretches);
// Joins the contributions of P ranks, W words each. Words [0, R) hold a rank's result of largest_of_rows(), with 0 for
// rows that its stretch does not touch; scales_R receives the scales of the whole rows. Each of the other W - R words
// is 0 on all ranks but one; `others` receives the words of these ranks.
struct JoinedScales {
  const std::uint32_t* words_PW;
  Size P, W, R;
  float* scales_R;
  std::uint32_t* others;
};
template <class S>
void join_scales(S stream, const JoinedScales& j);

}  // namespace lt::kernels
