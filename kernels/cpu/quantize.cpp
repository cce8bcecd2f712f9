// Quantization to e4m3 on the CPU, with the same bits as on the GPU.
#include "kernels/quantize.h"

#include "kernels/cpu/map.h"
#include "kernels/cpu/scratch.h"
#include "kernels/elementwise.h"

namespace lt::kernels {
namespace {

// Rows and columns of the blocks in which a matrix is transposed: both sides stay in the first cache.
constexpr Size kBlock = 64;

LT_INLINE std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

// A number of a row as e4m3 holds it. The row's scale is 1 / factor.
LT_INLINE float quantized(bf16 x, float factor) { return static_cast<float>(e4m3(load(x) * factor)); }
LT_INLINE float quantized(e4m3 x, float) { return static_cast<float>(x); }

LT_INLINE std::uint32_t largest_of(const bf16* x_C, Size C) {
  std::uint32_t largest = 0;  // as bits, because these order NaN above infinity above the rest
#pragma omp simd reduction(max : largest)
  for (Size c = 0; c < C; ++c) largest = std::max(largest, magnitude(load(x_C[c])));
  return largest;
}

LT_INLINE void quantize_row(e4m3* y_C, const bf16* x_C, Size C, float scale) {
  const float factor = 1 / scale;
#pragma omp simd
  for (Size c = 0; c < C; ++c) y_C[c].bits = e4m3(load(x_C[c]) * factor).bits;  // of a struct, the loop is scalar
}

}  // namespace

template <>
void quantize_rows(CpuStream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C) {
  parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size r = begin; r < end; ++r) {
      scales_R[r] = e4m3_scale(std::bit_cast<float>(largest_of(x_RC + r * C, C)));
      quantize_row(y_RC + r * C, x_RC + r * C, C, scales_R[r]);
    }
  });
}

template <>
void spread_largest_scales(CpuStream, std::span<const LargestScale> all) {
  require_largest_scales(all);
  for (const LargestScale& one : all) {
    std::uint32_t largest = 0;
    for (Size r = 0; r < one.R; ++r) largest = std::max(largest, magnitude(one.scales_R[r]));
    std::fill_n(one.scales_N, one.N, std::bit_cast<float>(largest));
  }
}

template <>
void quantize_transposed(CpuStream, const QuantizeTransposed& q) {
  const float largest = *q.scale;
  const auto write = [&]<class T>() {
    const T* const x_RC = static_cast<const T*>(q.x_RC);
    e4m3* const y_CR = q.y_CR;
    const float* const scales_R = q.scales_R;
    float* const sums_C = q.sums_C;
    const Size R = q.R, C = q.C;
    const bool accumulate = q.accumulate_sums;
    parallel_for((C + kBlock - 1) / kBlock, row_grain(R * kBlock), [=](Size begin, Size end) LT_VECTOR_BODY {
      std::uint8_t bytes[kBlock][kBlock];  // of rows, converted before they are scattered
      for (Size column = begin * kBlock; column < std::min(C, end * kBlock); column += kBlock) {
        const Size columns = std::min(kBlock, C - column);
        float sums[kBlock] = {};
        for (Size row = 0; row < R; row += kBlock) {
          const Size rows = std::min(kBlock, R - row);
          for (Size r = 0; r < rows; ++r) {
            const T* const x_C = x_RC + (row + r) * C + column;
            const float scale = scales_R[row + r], factor = scale / largest;
#pragma omp simd
            for (Size c = 0; c < columns; ++c) {
              const float scaled = quantized(x_C[c], 1 / scale) * factor;
              bytes[r][c] = e4m3(scaled).bits;
              sums[c] += scaled;
            }
          }
          for (Size c = 0; c < columns; ++c) {
            for (Size r = 0; r < rows; ++r) y_CR[(column + c) * R + row + r].bits = bytes[r][c];
          }
        }
        if (sums_C == nullptr) continue;
        for (Size c = 0; c < columns; ++c) {
          sums_C[column + c] = (accumulate ? sums_C[column + c] : 0.0f) + sums[c] * largest;
        }
      }
    });
  };
  q.dtype == DType::e4m3 ? write.template operator()<e4m3>() : write.template operator()<bf16>();
}

namespace {

// Calls body(columns, place in the stretch, row) for each row that a stretch touches.
template <class Body>
LT_INLINE void for_rows(const MatrixStretch& s, Size first, Size last, Body&& body) {
  for (Size r = first; r < last; ++r) {
    const Size at = std::max(s.begin, r * s.C);
    body(std::min(s.end, (r + 1) * s.C) - at, at - s.begin, r);
  }
}

}  // namespace

template <>
void largest_of_rows(CpuStream, std::span<const MatrixStretch> stretches) {
  for (const MatrixStretch& s : stretches) {
    parallel_for(s.rows(), row_grain(s.C), [s, first = s.begin / s.C](Size begin, Size end) LT_VECTOR_BODY {
      for_rows(s, first + begin, first + end, [&](Size columns, Size at, Size r) LT_VECTOR_BODY {
        s.rows_R[r] = std::bit_cast<float>(largest_of(s.x + at, columns));
      });
    });
  }
}

template <>
void quantize_stretches(CpuStream, std::span<const MatrixStretch> stretches) {
  for (const MatrixStretch& s : stretches) {
    parallel_for(s.rows(), row_grain(s.C), [s, first = s.begin / s.C](Size begin, Size end) LT_VECTOR_BODY {
      for_rows(s, first + begin, first + end, [&](Size columns, Size at, Size r) LT_VECTOR_BODY {
        quantize_row(s.y + at, s.x + at, columns, s.rows_R[r]);
      });
    });
  }
}

template <>
void join_scales(CpuStream, const JoinedScales& j) {
  for (Size w = 0; w < j.W; ++w) {
    std::uint32_t largest = 0, word = 0;
    for (Size p = 0; p < j.P; ++p) {
      largest = std::max(largest, j.words_PW[p * j.W + w]), word |= j.words_PW[p * j.W + w];
    }
    if (w < j.R) {
      j.scales_R[w] = e4m3_scale(std::bit_cast<float>(largest));
    } else {
      j.others[w - j.R] = word;
    }
  }
}

namespace {

// Quantizes what write(y) writes to scratch memory, of a type that no other kernel uses at that time.
template <class F>
void quantize_written(CpuStream stream, e4m3* y_RC, float* scales_R, Size R, Size C, F&& write) {
  bf16* const written = scratch<bf16>(R * C);
  write(written);
  quantize_rows(stream, y_RC, scales_R, written, R, C);
}

template <class Norm>
void quantize_norm(CpuStream stream, e4m3* y_RC, float* scales_R, Norm norm, void (*forward)(CpuStream, const Norm&)) {
  quantize_written(stream, y_RC, scales_R, norm.R, norm.C, [&](bf16* y) {
    norm.y_RC = y;
    forward(stream, norm);
  });
}

}  // namespace

template <>
void quantize_gelu(CpuStream stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C) {
  quantize_written(stream, y_RC, scales_R, R, C, [&](bf16* y) { gelu_forward(stream, DType::bf16, y, x_RC, R * C); });
}

template <>
void quantize_gelu_backward(CpuStream stream, e4m3* dx_RC, float* scales_R, const bf16* dy_RC, const bf16* x_RC, Size R,
                            Size C) {
  quantize_written(stream, dx_RC, scales_R, R, C,
                   [&](bf16* dx) { gelu_backward(stream, DType::bf16, dx, dy_RC, x_RC, R * C, false); });
}

template <>
void quantize_swiglu(CpuStream stream, e4m3* y_RF, float* scales_R, const bf16* x_R2F, Size R, Size F) {
  quantize_written(stream, y_RF, scales_R, R, F, [&](bf16* y) { swiglu_forward(stream, DType::bf16, y, x_R2F, R, F); });
}

template <>
void quantize_swiglu_backward(CpuStream stream, e4m3* dx_R2F, float* scales_R, const bf16* dy_RF, const bf16* x_R2F,
                              Size R, Size F) {
  quantize_written(stream, dx_R2F, scales_R, R, 2 * F,
                   [&](bf16* dx) { swiglu_backward(stream, DType::bf16, dx, dy_RF, x_R2F, R, F, false); });
}

template <>
void quantize_layer_norm(CpuStream stream, e4m3* y_RC, float* scales_R, const LayerNormForward& norm) {
  quantize_norm(stream, y_RC, scales_R, norm, layer_norm_forward<CpuStream>);
}

template <>
void quantize_rms_norm(CpuStream stream, e4m3* y_RC, float* scales_R, const RmsNormForward& norm) {
  quantize_norm(stream, y_RC, scales_R, norm, rms_norm_forward<CpuStream>);
}

template <>
void write_layer_norm(CpuStream stream, const LayerNormForward& norm) {
  layer_norm_forward(stream, norm);
}

template <>
void write_rms_norm(CpuStream stream, const RmsNormForward& norm) {
  rms_norm_forward(stream, norm);
}

}  // namespace lt::kernels
