// Quantization to e4m3 on the GPU.
#include "kernels/quantize.h"

#include "kernels/cuda/quantize_rows.cuh"

namespace lt::kernels {
namespace {

constexpr int kWordBytes = 4;

struct Plain {
  static constexpr int kParts = 1;
  const bf16* x_RC;
  Size C;

  template <int kHeld>
  __device__ void load(HeldRow<kHeld, 1>& row, Size r) const {
    row.for_each([&](Sixteen<bf16>& values, int at, int) { values = Sixteen<bf16>::at(x_RC + r * C + 16 * at); });
  }
};

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
      values[i] = Sixteen<T>::at(x_RC + (first_row + part * kWordBytes + i) * C + first_column + columns * 16);
    }
#pragma unroll
    for (int i = 0; i < kWordBytes; ++i) {
      const float own = scales_R != nullptr ? scales_R[first_row + part * kWordBytes + i] : 1.0f;
      const float factor = own / largest;
      rows[i] = sixteen_e4m3([&](int k) { return values[i][k] * factor; });
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

}  // namespace

template <>
void quantize_rows(CudaStream stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C) {
  launch_quantize_rows(stream, y_RC, scales_R, Plain{x_RC, C}, R, C);
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
  dtype == DType::e4m3 ? launch.template operator()<e4m3>() : launch.template operator()<bf16>();
}

}  // namespace lt::kernels
