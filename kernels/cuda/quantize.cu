// Quantization to e4m3 on the GPU.
#include "kernels/quantize.h"

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/quantize_rows.cuh"
#include "kernels/elementwise.h"

namespace lt::kernels {
namespace {

constexpr int kThreadRows = 4;  // of a thread; transposed_bytes() takes as many

struct Plain {
  static constexpr int kParts = 1;
  const bf16* x_RC;
  Size C;

  __device__ Sixteen<bf16> at(Size r, int at, int) const { return Sixteen<bf16>::at(x_RC + r * C + 16 * at); }
};

constexpr int kSpreadThreads = 1024;

struct LargestScales {
  LargestScale of[kMostLargestScales];
};

// blockIdx.y is the entry. Each block finds the maximum for itself.
__global__ void __launch_bounds__(kSpreadThreads)
    spread_largest_scales_kernel(const __grid_constant__ LargestScales all) {
  const LargestScale one = all.of[blockIdx.y];
  const Size first = static_cast<Size>(blockIdx.x) * kSpreadThreads;
  if (first >= one.N) return;
  const auto* const scales_R4 = reinterpret_cast<const float4*>(one.scales_R);
  std::uint32_t largest = 0;
#pragma unroll 4
  for (Size r = threadIdx.x; r < one.R / 4; r += kSpreadThreads) {
    const float4 s = scales_R4[r];
    largest = max(max(largest, max(magnitude(s.x), magnitude(s.y))), max(magnitude(s.z), magnitude(s.w)));
  }
  const float result = __uint_as_float(block_max(largest, 0u));
  const Size stride = static_cast<Size>(gridDim.x) * kSpreadThreads;
  for (Size n = first + threadIdx.x; n < one.N; n += stride) one.scales_N[n] = result;
}

constexpr int kTile = 128;                                                 // rows and columns
constexpr int kColumnParts = kTile / 16, kRowParts = kTile / kThreadRows;  // a thread has 4 rows of 16 columns
static_assert(kColumnParts * kRowParts == kThreads);

// The place in shared memory of the word with rows 4 part .. 4 part + 3 of a column. The order keeps the lanes of a
// warp in different banks both when they write, 4 parts of 8 sixteens of columns, and when 8 of them read a column, 16
// bytes each.
__device__ int word_at(int column, int part) { return column * kRowParts + (part ^ (column / 16 * 4)); }

// The columns of the 4 x 4 bytes whose rows are a, b, c and d.
__device__ uint4 transposed_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  const std::uint32_t ab_01 = __byte_perm(a, b, 0x5140), ab_23 = __byte_perm(a, b, 0x7362),
                      cd_01 = __byte_perm(c, d, 0x5140), cd_23 = __byte_perm(c, d, 0x7362);
  return make_uint4(__byte_perm(ab_01, cd_01, 0x5410), __byte_perm(ab_01, cd_01, 0x7632),
                    __byte_perm(ab_23, cd_23, 0x5410), __byte_perm(ab_23, cd_23, 0x7632));
}

// 16 numbers of a row with this scale, in e4m3.
__device__ Sixteen<e4m3> quantized(const Sixteen<bf16>& x, float scale) {
  const float factor = 1 / scale;
  return {sixteen_e4m3([&](int k) { return x[k] * factor; })};
}
__device__ Sixteen<e4m3> quantized(const Sixteen<e4m3>& x, float) { return x; }
// 16 numbers times a power of two. In f16: a product that is too small for it is 0 in e4m3. visit(k, product) is called
// for each of the 16.
template <class F>
__device__ uint4 scaled(const Sixteen<e4m3>& x, float factor, F&& visit) {
  const __half2 factors = __float2half2_rn(factor);
  const std::uint32_t words[4] = {x.bytes.x, x.bytes.y, x.bytes.z, x.bytes.w};
  std::uint32_t results[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = [&](int first) -> std::uint32_t {
      const auto two = static_cast<__nv_fp8x2_storage_t>(words[i] >> (8 * first));
      const __half2 product = __hmul2(__half2(__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)), factors);
      visit(4 * i + first, __low2float(product));
      visit(4 * i + first + 1, __high2float(product));
      return __nv_cvt_halfraw2_to_fp8x2(product, __NV_SATFINITE, __NV_E4M3);
    };
    results[i] = pair(0) | pair(2) << 16;
  }
  return make_uint4(results[0], results[1], results[2], results[3]);
}

// One block a tile of R rows, whose columns are `stride` elements apart in y. partial[row of tiles][c] = the sum of
// column c over the tile's rows, as a multiple of *scale.
template <bool kSums, class T>
__global__ void __launch_bounds__(kThreads)
    quantize_transposed_kernel(e4m3* y_CR, const float* scale, const T* x_RC, const float* scales_R, Size R, Size C,
                               Size stride, float* partial) {
  __shared__ alignas(16) std::uint32_t tile[kTile * kRowParts];
  const Size first_row = static_cast<Size>(blockIdx.y) * kTile, first_column = static_cast<Size>(blockIdx.x) * kTile;
  const int columns = static_cast<int>(threadIdx.x) % kColumnParts, part = static_cast<int>(threadIdx.x) / kColumnParts;
  const float largest = *scale;
  float sums[16] = {};
  if (first_row + part * kThreadRows < R && first_column + columns * 16 < C) {
    Sixteen<T> values[kThreadRows];
    float scales[kThreadRows];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      const Size r = first_row + part * kThreadRows + i;
      values[i] = Sixteen<T>::at(x_RC + r * C + first_column + columns * 16);
      scales[i] = scales_R[r];
    }
    uint4 rows[kThreadRows];
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      rows[i] = scaled(quantized(values[i], scales[i]), scales[i] / largest, [&](int k, float product) {
        if constexpr (kSums) sums[k] += product;
      });
    }
    const auto put = [&](int first, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
      const uint4 four = transposed_bytes(a, b, c, d);
      tile[word_at(columns * 16 + first, part)] = four.x;
      tile[word_at(columns * 16 + first + 1, part)] = four.y;
      tile[word_at(columns * 16 + first + 2, part)] = four.z;
      tile[word_at(columns * 16 + first + 3, part)] = four.w;
    };
    put(0, rows[0].x, rows[1].x, rows[2].x, rows[3].x);
    put(4, rows[0].y, rows[1].y, rows[2].y, rows[3].y);
    put(8, rows[0].z, rows[1].z, rows[2].z, rows[3].z);
    put(12, rows[0].w, rows[1].w, rows[2].w, rows[3].w);
  }
  __syncthreads();
  // 8 threads write a column of the tile, 16 rows each: words that word_at() keeps together.
  constexpr int kWriters = kTile / 16;
  const int writer = static_cast<int>(threadIdx.x) % kWriters;
  if (first_row + writer * 16 < R) {
    for (int column = static_cast<int>(threadIdx.x) / kWriters; column < kTile && first_column + column < C;
         column += kThreads / kWriters) {
      e4m3* const y = y_CR + (first_column + column) * stride + first_row;
      reinterpret_cast<uint4*>(y)[writer] = *reinterpret_cast<const uint4*>(tile + word_at(column, 4 * writer));
    }
  }
  if constexpr (kSums) {
    __syncthreads();
    float* const parts = reinterpret_cast<float*>(tile);
#pragma unroll
    for (int k = 0; k < 16; ++k) parts[part * kTile + columns * 16 + k] = sums[k];
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x);
    if (column >= kTile || first_column + column >= C) return;
    float sum = 0;
    for (int i = 0; i < kRowParts; ++i) sum += parts[i * kTile + column];
    partial[blockIdx.y * C + first_column + column] = sum * largest;
  }
}

constexpr int kMostStretches = 12;  // in one launch

struct Stretches {
  int count = 0;
  MatrixStretch of[kMostStretches];
  unsigned end[kMostStretches];  // rows that they and those before touch
};

// A row within its stretch: one block of the grid.
struct RowStretch {
  MatrixStretch s;
  Size row, at;  // in the matrix; the first element's place in the stretch
  int count;     // sixteens

  __device__ explicit RowStretch(const Stretches& all) {
    int i = 0;
    while (blockIdx.x >= all.end[i]) ++i;
    s = all.of[i];
    row = s.begin / s.C + (blockIdx.x - (i == 0 ? 0 : all.end[i - 1]));
    const Size begin = max(s.begin, row * s.C);
    at = begin - s.begin, count = static_cast<int>((min(s.end, (row + 1) * s.C) - begin) / kQuantizedMultiple);
  }
  // Calls visit(values, their place in the stretch) for each sixteen of this thread.
  template <class F>
  __device__ void for_each(F&& visit) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const Size place = at + i * kQuantizedMultiple;
      visit(Sixteen<bf16>::at(s.x + place), place);
    }
  }
};

__global__ void __launch_bounds__(kThreads) largest_of_rows_kernel(const __grid_constant__ Stretches all) {
  const RowStretch row(all);
  std::uint32_t largest = 0;
  row.for_each([&](const Sixteen<bf16>& values, Size) {
#pragma unroll
    for (int k = 0; k < 16; ++k) largest = max(largest, magnitude(values[k]));
  });
  const float result = __uint_as_float(block_max(largest, 0u));
  if (threadIdx.x == 0) row.s.rows_R[row.row] = result;
}

__global__ void __launch_bounds__(kThreads) quantize_stretches_kernel(const __grid_constant__ Stretches all) {
  const RowStretch row(all);
  const float scale = row.s.rows_R[row.row];
  row.for_each([&](const Sixteen<bf16>& values, Size place) {
    *reinterpret_cast<uint4*>(row.s.y + place) = quantized(values, scale).bytes;
  });
}

__global__ void __launch_bounds__(kThreads) join_scales_kernel(JoinedScales j) {
  for (Size w = thread_index(); w < j.W; w += thread_count()) {
    std::uint32_t largest = 0, word = 0;
    for (Size p = 0; p < j.P; ++p) {
      const std::uint32_t part = j.words_PW[p * j.W + w];
      largest = max(largest, part), word |= part;
    }
    if (w < j.R) {
      j.scales_R[w] = e4m3_scale(__uint_as_float(largest));
    } else {
      j.others[w - j.R] = word;
    }
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

namespace {

// Calls launch(stretches, blocks, threads) for a number of stretches at a time.
template <class Launch>
void launch_for_stretches(std::span<const MatrixStretch> stretches, Launch&& launch) {
  while (!stretches.empty()) {
    Stretches some;
    Size sixteens = 1;
    for (; !stretches.empty() && some.count < kMostStretches; stretches = stretches.subspan(1)) {
      const MatrixStretch& s = stretches.front();
      require_multiples(s.begin, s.C);
      require_multiples(s.end, s.C);
      const auto rows = static_cast<unsigned>(s.rows());
      if (rows == 0) continue;
      some.of[some.count] = s, some.end[some.count] = rows + (some.count == 0 ? 0 : some.end[some.count - 1]);
      ++some.count, sixteens = std::max(sixteens, s.C / kQuantizedMultiple);
    }
    if (some.count == 0) return;
    const Size warps = (sixteens + kWarp - 1) / kWarp;
    launch(some, some.end[some.count - 1], static_cast<unsigned>(std::min<Size>(warps * kWarp, kThreads)));
  }
}

}  // namespace

template <>
void largest_of_rows(CudaStream stream, std::span<const MatrixStretch> stretches) {
  launch_for_stretches(stretches, [&](const Stretches& some, unsigned rows, unsigned threads) {
    largest_of_rows_kernel<<<rows, threads, 0, stream_of(stream)>>>(some);
    check_launch("largest_of_rows");
  });
}

template <>
void quantize_stretches(CudaStream stream, std::span<const MatrixStretch> stretches) {
  launch_for_stretches(stretches, [&](const Stretches& some, unsigned rows, unsigned threads) {
    quantize_stretches_kernel<<<rows, threads, 0, stream_of(stream)>>>(some);
    check_launch("quantize_stretches");
  });
}

template <>
void join_scales(CudaStream stream, const JoinedScales& j) {
  if (j.W == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<Size>((j.W + kThreads - 1) / kThreads, 1024));
  join_scales_kernel<<<blocks, kThreads, 0, stream_of(stream)>>>(j);
  check_launch("join_scales");
}

template <>
void spread_largest_scales(CudaStream stream, std::span<const LargestScale> all) {
  require_largest_scales(all);
  if (all.empty()) return;
  LargestScales some{};
  Size most = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    require_multiples(all[i].R, kQuantizedMultiple);
    some.of[i] = all[i], most = std::max(most, all[i].N);
  }
  const dim3 blocks(most > kSpreadThreads ? 8 : 1, static_cast<unsigned>(all.size()));
  spread_largest_scales_kernel<<<blocks, kSpreadThreads, 0, stream_of(stream)>>>(some);
  check_launch("spread_largest_scales");
}

template <>
void quantize_transposed(CudaStream stream, const QuantizeTransposed& q) {
  require_multiples(q.R, q.C);
  const auto tiles = [](Size n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  const auto launch = [&]<class T>(auto sums, Size first, Size rows, float* partial) {
    quantize_transposed_kernel<sums.value><<<dim3(tiles(q.C), tiles(rows)), kThreads, 0, stream_of(stream)>>>(
        q.y_CR + first, q.scale, static_cast<const T*>(q.x_RC) + first * q.C, q.scales_R + first, rows, q.C, q.R,
        partial);
    check_launch("quantize_transposed");
  };
  if (q.C == 0) return;
  if (q.sums_C == nullptr) {
    if (q.R == 0) return;
    if (q.dtype == DType::e4m3) return launch.template operator()<e4m3>(std::false_type{}, 0, q.R, nullptr);
    return launch.template operator()<bf16>(std::false_type{}, 0, q.R, nullptr);
  }
  if (q.R == 0 && !q.accumulate_sums) fill_zero(stream, q.sums_C, q.C * 4);
  // As many rows at a time as have room for their tiles' sums.
  const Size most = memory::kScratchBytes / (q.C * 4) * kTile;
  for (Size first = 0; first < q.R; first += most) {
    const Size rows = std::min(most, q.R - first);
    auto* const partial = reinterpret_cast<float*>(memory::scratch(stream, tiles(rows) * q.C * 4));
    launch.template operator()<e4m3>(std::true_type{}, first, rows, partial);
    combine_partials<float>(stream, q.sums_C, q.accumulate_sums || first > 0, partial, tiles(rows), q.C);
  }
}

}  // namespace lt::kernels
