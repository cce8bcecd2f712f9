// Quantization to e4m3 on the GPU.
#include "kernels/quantize.h"

#include <cuda_fp8.h>

#include "kernels/cuda/packed.cuh"

namespace lt::kernels {
namespace {

constexpr int kWordBytes = 4;

__device__ std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }
__device__ float scale_of(std::uint32_t largest) { return e4m3_scale(__uint_as_float(largest)); }

// Two numbers in e4m3, the first in the low byte.
__device__ std::uint32_t pair_of(float a, float b) {
  return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
}

// 16 numbers in e4m3: value(0), value(1), ...
template <class F>
__device__ uint4 sixteen(F&& value) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = pair_of(value(4 * i), value(4 * i + 1)) | pair_of(value(4 * i + 2), value(4 * i + 3)) << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// 16 numbers of a row as they are in memory.
template <class T>
struct Sixteen {
  static constexpr int kPacks = 16 / kPack<T>;
  Packed<T> packs[kPacks];

  __device__ void load(const T* x) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) packs[i] = reinterpret_cast<const Packed<T>*>(x)[i];
  }
  __device__ float operator[](int k) const { return packs[k / kPack<T>][k % kPack<T>]; }
};
template <>
struct Sixteen<e4m3> {
  uint4 bytes;

  __device__ void load(const e4m3* x) { bytes = *reinterpret_cast<const uint4*>(x); }
  __device__ float operator[](int k) const {
    const std::uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
    const auto byte = static_cast<__nv_fp8_storage_t>(words[k / 4] >> (8 * (k % 4)));
    return __half2float(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3));
  }
};

// One block a row. A thread keeps its first kHeld sixteens in registers and reads the others twice.
template <class T, int kHeld>
__global__ void __launch_bounds__(kThreads) quantize_rows_kernel(e4m3* y_RC, float* scales_R, const T* x_RC, Size C) {
  const Size r = blockIdx.x, count = C / 16;
  const T* const x = x_RC + r * C;
  e4m3* const y = y_RC + r * C;
  Sixteen<T> held[kHeld];
  std::uint32_t largest = 0;
  const auto look_at = [&](const Sixteen<T>& values) {
#pragma unroll
    for (int k = 0; k < 16; ++k) largest = max(largest, magnitude(values[k]));
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const Size at = threadIdx.x + i * static_cast<int>(blockDim.x);
    if (at >= count) break;
    held[i].load(x + 16 * at);
    look_at(held[i]);
  }
  for (Size at = threadIdx.x + kHeld * blockDim.x; at < count; at += blockDim.x) {
    Sixteen<T> values;
    values.load(x + 16 * at);
    look_at(values);
  }
  const float scale = scale_of(block_max(largest, 0u)), factor = 1 / scale;
  if (threadIdx.x == 0) scales_R[r] = scale;
  const auto write = [&](Size at, const Sixteen<T>& values) {
    reinterpret_cast<uint4*>(y)[at] = sixteen([&](int k) { return values[k] * factor; });
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const Size at = threadIdx.x + i * static_cast<int>(blockDim.x);
    if (at < count) write(at, held[i]);
  }
  for (Size at = threadIdx.x + kHeld * blockDim.x; at < count; at += blockDim.x) {
    Sixteen<T> values;
    values.load(x + 16 * at);
    write(at, values);
  }
}

// Each block finds the maximum for itself.
__global__ void spread_largest_scale_kernel(float* scales_N, Size N, const float* scales_R, Size R) {
  std::uint32_t largest = 0;
  for (Size r = threadIdx.x; r < R; r += blockDim.x) largest = max(largest, magnitude(scales_R[r]));
  const float result = __uint_as_float(block_max(largest, 0u));
  for (Size n = thread_index(); n < N; n += thread_count()) scales_N[n] = result;
}

constexpr int kTile = 128;                                                // rows and columns
constexpr int kColumnParts = kTile / 16, kRowParts = kTile / kWordBytes;  // a thread has 4 rows of 16 columns
static_assert(kColumnParts * kRowParts == kThreads);

// The place in shared memory of the word with rows 4 part .. 4 part + 3 of a column. The order keeps the lanes of a
// warp in different banks both when they write, 4 parts of 8 sixteens of columns, and when they read a whole column.
__device__ int word_at(int column, int part) { return column * kRowParts + (part ^ (column / 16 * 4)); }

// One block a tile.
template <class T>
__global__ void __launch_bounds__(kThreads)
    quantize_transposed_kernel(e4m3* y_CR, const float* scale, const T* x_RC, const float* scales_R, Size R, Size C) {
  __shared__ std::uint32_t tile[kTile * kRowParts];
  const Size first_row = static_cast<Size>(blockIdx.y) * kTile, first_column = static_cast<Size>(blockIdx.x) * kTile;
  const int columns = static_cast<int>(threadIdx.x) % kColumnParts, part = static_cast<int>(threadIdx.x) / kColumnParts;
  const float largest = *scale;
  uint4 rows[kWordBytes];
  if (first_row + part * kWordBytes < R && first_column + columns * 16 < C) {
    Sixteen<T> values[kWordBytes];
#pragma unroll
    for (int i = 0; i < kWordBytes; ++i) {
      values[i].load(x_RC + (first_row + part * kWordBytes + i) * C + first_column + columns * 16);
    }
#pragma unroll
    for (int i = 0; i < kWordBytes; ++i) {
      const float own = scales_R != nullptr ? scales_R[first_row + part * kWordBytes + i] : 1.0f;
      const float factor = own / largest;
      rows[i] = sixteen([&](int k) { return values[i][k] * factor; });
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const auto word = [&](int i) {
        const std::uint32_t words[4] = {rows[i].x, rows[i].y, rows[i].z, rows[i].w};
        return words[k / 4];
      };
      const auto byte = static_cast<unsigned>(k % 4), select = byte | (byte + 4) << 4;
      const std::uint32_t low = __byte_perm(word(0), word(1), select), high = __byte_perm(word(2), word(3), select);
      tile[word_at(columns * 16 + k, part)] = __byte_perm(low, high, 0x5410);
    }
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  if (first_row + lane * kWordBytes >= R) return;
  for (int column = warp; column < kTile && first_column + column < C; column += kThreads / kWarp) {
    e4m3* const y = y_CR + (first_column + column) * R + first_row;
    reinterpret_cast<std::uint32_t*>(y)[lane] = tile[word_at(column, lane)];
  }
}

void require_multiples(Size R, Size C) {
  if (R % kQuantizedMultiple == 0 && C % kQuantizedMultiple == 0) return;
  throw InternalError("kernels", "quantize: expected rows and columns in multiples of 16, found " + std::to_string(R) +
                                     " and " + std::to_string(C));
}

template <class T>
void launch_rows(CudaStream stream, e4m3* y_RC, float* scales_R, const T* x_RC, Size R, Size C) {
  const auto launch = [&](auto kernel, unsigned threads) {
    kernel<<<static_cast<unsigned>(R), threads, 0, stream_of(stream)>>>(y_RC, scales_R, x_RC, C);
    check_launch("quantize_rows");
  };
  const Size sixteens = C / 16;
  if (sixteens <= kThreads / 2) return launch(quantize_rows_kernel<T, 1>, kThreads / 2);
  if (sixteens <= kThreads) return launch(quantize_rows_kernel<T, 1>, kThreads);
  if (sixteens <= 2 * kThreads) return launch(quantize_rows_kernel<T, 2>, kThreads);
  launch(quantize_rows_kernel<T, 4>, kThreads);
}

}  // namespace

template <>
void quantize_rows(CudaStream stream, e4m3* y_RC, float* scales_R, DType dtype, const void* x_RC, Size R, Size C) {
  require_multiples(kQuantizedMultiple, C);
  if (R == 0) return;
  dispatch_f32_bf16(dtype, [&]<class T>() { launch_rows(stream, y_RC, scales_R, static_cast<const T*>(x_RC), R, C); });
}

template <>
void spread_largest_scale(CudaStream stream, float* scales_N, Size N, const float* scales_R, Size R) {
  constexpr int kBlock = 1024;
  const unsigned blocks = N > kBlock ? 8 : 1;
  spread_largest_scale_kernel<<<blocks, kBlock, 0, stream_of(stream)>>>(scales_N, N, scales_R, R);
  check_launch("spread_largest_scale");
}

template <>
void quantize_transposed(CudaStream stream, e4m3* y_CR, const float* scale, DType dtype, const void* x_RC,
                         const float* scales_R, Size R, Size C) {
  require_multiples(R, C);
  if (R == 0 || C == 0) return;
  const dim3 tiles(static_cast<unsigned>((C + kTile - 1) / kTile), static_cast<unsigned>((R + kTile - 1) / kTile));
  const auto launch = [&]<class T>() {
    quantize_transposed_kernel<<<tiles, kThreads, 0, stream_of(stream)>>>(y_CR, scale, static_cast<const T*>(x_RC),
                                                                          scales_R, R, C);
    check_launch("quantize_transposed");
  };
  if (dtype == DType::e4m3) return launch.template operator()<e4m3>();
  dispatch_f32_bf16(dtype, launch);
}

}  // namespace lt::kernels
