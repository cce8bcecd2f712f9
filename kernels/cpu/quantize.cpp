// Quantization to e4m3 on the CPU, with the bits of the GPU's.
#include "kernels/quantize.h"

#include <string>

#include "kernels/cpu/map.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

// Rows and columns of the blocks in which a matrix is transposed: both sides stay in the first cache.
constexpr Size kBlock = 64;

LT_INLINE std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

template <class F>
void dispatch_quantized(DType dtype, F&& f) {
  if (dtype == DType::e4m3) return f.template operator()<e4m3>();
  dispatch_f32_bf16(dtype, std::forward<F>(f));
}

LT_INLINE float value_of(float x) { return x; }
LT_INLINE float value_of(bf16 x) { return load(x); }
LT_INLINE float value_of(e4m3 x) { return static_cast<float>(x); }

}  // namespace

template <>
void quantize_rows(CpuStream, e4m3* y_RC, float* scales_R, DType dtype, const void* x_RC, Size R, Size C) {
  dispatch_f32_bf16(dtype, [&]<class T>() {
    const T* const x_begin = static_cast<const T*>(x_RC);
    parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size r = begin; r < end; ++r) {
        const T* const x = x_begin + r * C;
        e4m3* const y = y_RC + r * C;
        std::uint32_t largest = 0;  // as bits, because these order NaN above infinity above the rest
#pragma omp simd reduction(max : largest)
        for (Size c = 0; c < C; ++c) largest = std::max(largest, magnitude(load(x[c])));
        const float scale = e4m3_scale(std::bit_cast<float>(largest)), factor = 1 / scale;
        scales_R[r] = scale;
#pragma omp simd
        for (Size c = 0; c < C; ++c) y[c].bits = e4m3(load(x[c]) * factor).bits;  // of a struct, the loop is scalar
      }
    });
  });
}

template <>
void spread_largest_scale(CpuStream, float* scales_N, Size N, const float* scales_R, Size R) {
  std::uint32_t largest = 0;
  for (Size r = 0; r < R; ++r) largest = std::max(largest, magnitude(scales_R[r]));
  std::fill_n(scales_N, N, std::bit_cast<float>(largest));
}

template <>
void quantize_transposed(CpuStream, e4m3* y_CR, const float* scale, DType dtype, const void* x_RC,
                         const float* scales_R, Size R, Size C) {
  const float largest = *scale;
  dispatch_quantized(dtype, [&]<class T>() {
    const T* const x = static_cast<const T*>(x_RC);
    parallel_for((C + kBlock - 1) / kBlock, row_grain(R * kBlock), [=](Size begin, Size end) LT_VECTOR_BODY {
      std::uint8_t bytes[kBlock][kBlock];  // of rows, converted before they are scattered
      for (Size column = begin * kBlock; column < std::min(C, end * kBlock); column += kBlock) {
        const Size columns = std::min(kBlock, C - column);
        for (Size row = 0; row < R; row += kBlock) {
          const Size rows = std::min(kBlock, R - row);
          for (Size r = 0; r < rows; ++r) {
            const T* const x_C = x + (row + r) * C + column;
            const float factor = (scales_R != nullptr ? scales_R[row + r] : 1.0f) / largest;
#pragma omp simd
            for (Size c = 0; c < columns; ++c) bytes[r][c] = e4m3(value_of(x_C[c]) * factor).bits;
          }
          for (Size c = 0; c < columns; ++c) {
            for (Size r = 0; r < rows; ++r) y_CR[(column + c) * R + row + r].bits = bytes[r][c];
          }
        }
      }
    });
  });
}

}  // namespace lt::kernels
