// Operands of products in e4m3. A stored number times its scale is what it stands for. Scales are powers of two:
// dividing by them rounds nothing, so a number is rounded once, and can move to a larger scale without being rounded
// again, except where it becomes subnormal. A row with infinity or NaN has a scale of NaN, which reaches the loss or
// the norm of the gradient, so that such a step changes nothing.
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

// Sizes of products in e4m3 are multiples of it, because tensor cores load 16 bytes of a row at once.
inline constexpr Size kQuantizedMultiple = 16;
inline constexpr Size kMostQuantizedColumns = 131072;  // of a row

// The scale of numbers with magnitudes up to `largest` >= 0: the smallest power of two from 2^-126 on that divides it
// to at most 448; NaN for infinity and NaN.
constexpr float e4m3_scale(float largest) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(largest);
  if (bits >= 0x7f800000u) return std::bit_cast<float>(0x7fc00000u);
  // 448 is 1.75 x 2^8.
  const std::int32_t exponent = static_cast<std::int32_t>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent < 1 ? 1 : exponent) << 23);
}

// y_RC = x_RC / scales_R, rounded to nearest even; each row's scale is that of its largest magnitude.
template <class S>
void quantize_rows(S stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C);

// quantize_rows() of what an operation makes of bf16 numbers, rounded to bf16 first, as if it had been written: GELU,
// SwiGLU, their gradients, and the norms, whose statistics are written too and whose y_RC is ignored.
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
// The norms of bf16 numbers with the bits, of statistics too, that these two quantize.
template <class S>
void write_layer_norm(S stream, const LayerNormForward& norm);
template <class S>
void write_rms_norm(S stream, const RmsNormForward& norm);

// All of scales_N = the largest of scales_R, or NaN if one is NaN, for each entry. Throws InternalError for more than
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

// y_CR = the transpose of what x_RC and scales_R stand for, divided by scale[0], which is no smaller than any row's,
// and rounded to nearest even. x has `dtype`: e4m3; or bf16, whose rows are quantized with scales_R first, so that both
// give the same bits. For e4m3 also sums_C (+)= the sums over the rows of x in f32, unless null: with the gradient of a
// linear layer's output in x they are that of its bias. On CUDA R and C are multiples of kQuantizedMultiple, and x_RC
// and y_CR are aligned to 16 bytes.
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

// For quantize_rows() of matrices that are cut into stretches, such as the shards of ranks: the elements [begin, end)
// of a matrix of rows of C columns. All three are multiples of kQuantizedMultiple.
struct MatrixStretch {
  Size begin, end, C;
  const bf16* x;      // the first element of the stretch
  e4m3* y = nullptr;  // its place in the result
  float* rows_R;      // of the whole matrix

  // The number of rows that it touches.
  Size rows() const { return begin == end ? 0 : (end + C - 1) / C - begin / C; }
};
// rows_R[r] = the largest magnitude of row r within the stretch, or NaN, for the rows that it touches.
template <class S>
void largest_of_rows(S stream, std::span<const MatrixStretch> stretches);
// y = x divided by rows_R, the scales, and rounded.
template <class S>
void quantize_stretches(S stream, std::span<const MatrixStretch> stretches);
// Joins what P ranks contribute, W words each. Words [0, R) hold a rank's result of largest_of_rows(), 0 for rows that
// it does not touch: scales_R gets the scales of whole rows. Each other word is 0 on all ranks but one: others [W - R]
// gets the word of that one.
struct JoinedScales {
  const std::uint32_t* words_PW;
  Size P, W, R;
  float* scales_R;
  std::uint32_t* others;
};
template <class S>
void join_scales(S stream, const JoinedScales& j);

}  // namespace lt::kernels
