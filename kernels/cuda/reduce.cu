// Sums in a fixed order on the GPU. The order depends only on sizes.
#include "kernels/reduce.h"

#include <type_traits>

#include "kernels/cuda/columns.cuh"
#include "kernels/limits.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

template <class T>
__global__ void block_squares_kernel(double* partial, const T* x_N, Size piece, Size blocks_of_piece) {
  const Size block = blockIdx.x, first = block / blocks_of_piece * piece, last = first + piece;
  const Size begin = first + block % blocks_of_piece * kSumBlock,
             end = begin + kSumBlock < last ? begin + kSumBlock : last;
  double sum = 0;
  for (Size i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const double x = static_cast<double>(load(x_N[i]));
    sum += x * x;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: each thread adds its elements in order, then the sums of the threads are added.
template <class Y, class T>
__global__ void sum_in_order_kernel(Y* out, const T* x_N, Size N, double scale, const float* weight) {
  double sum = 0;
  for (Size i = threadIdx.x; i < N; i += blockDim.x) sum += static_cast<double>(load(x_N[i]));
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  const double factor = weight != nullptr ? scale * static_cast<double>(*weight) : scale;
  *out = store<Y>(static_cast<Arithmetic<Y>>(factor * sum));
}

// One block. Each warp adds the numbers of a piece, then one thread adds the sums of pieces, a power of two, in tree
// order.
__global__ void sum_pieces_kernel(double* out, const double* x_PB, int P, Size B) {
  __shared__ double sums[kMostPieces];
  for (int piece = threadIdx.x / kWarp; piece < P; piece += blockDim.x / kWarp) {
    double sum = 0;
    for (Size i = threadIdx.x % kWarp; i < B; i += kWarp) sum += x_PB[piece * B + i];
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) sums[piece] = sum;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (; P > 1; P /= 2) {
    for (int i = 0; i < P / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  *out = sums[0];
}

constexpr Size kSumChunk = kWarp * kLongestRun, kLongRow = 4 * kSumChunk;

// One warp per output if its elements are contiguous; sum_middle_kernel uses one thread per output.
template <class Out, class T>
__global__ void sum_within_rows_kernel(Out* out_O, const T* x_OR, Size O, Size R, bool accumulate) {
  const Size o = thread_index() / kWarp;
  if (o >= O) return;
  double total = 0;
  for (Size begin = 0; begin < R; begin += kSumChunk) {
    const Size end = begin + kSumChunk < R ? begin + kSumChunk : R;
    Arithmetic<T> part = 0;
    for (Size r = begin + threadIdx.x % kWarp; r < end; r += kWarp) part += load(x_OR[o * R + r]);
    total += static_cast<double>(warp_sum(part));
  }
  const Arithmetic<T> sum = static_cast<Arithmetic<T>>(total);
  if (threadIdx.x % kWarp == 0) out_O[o] = store<Out>(accumulate ? load(out_O[o]) + sum : sum);
}

// partial[o, chunk] = the sum of kSumChunk elements of row o. One block each.
template <class T>
__global__ void sum_chunks_kernel(Arithmetic<T>* partial, const T* x_OR, Size R, Size chunks) {
  const Size o = blockIdx.x / chunks, begin = blockIdx.x % chunks * kSumChunk;
  const Size end = begin + kSumChunk < R ? begin + kSumChunk : R;
  Arithmetic<T> sum = 0;
  for (Size r = begin + threadIdx.x; r < end; r += blockDim.x) sum += load(x_OR[o * R + r]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class Out, class T>
__global__ void sum_middle_kernel(Out* out_OI, const T* x_ORI, Size O, Size R, Size I, bool accumulate) {
  for (Size k = thread_index(); k < O * I; k += thread_count()) {
    const T* const x = x_ORI + k / I * R * I + k % I;
    double total = 0;
    for (Size begin = 0; begin < R; begin += kLongestRun) {
      const Size end = begin + kLongestRun < R ? begin + kLongestRun : R;
      Arithmetic<T> part = 0;
      for (Size r = begin; r < end; ++r) part += load(x[r * I]);
      total += static_cast<double>(part);
    }
    const Arithmetic<T> sum = static_cast<Arithmetic<T>>(total);
    out_OI[k] = store<Out>(accumulate ? load(out_OI[k]) + sum : sum);
  }
}

constexpr int kFewRanks = 64;
template <class X, int kRanks>
struct Contributions {
  const X* of[kRanks];
};
// The pointers are kernel parameters, and CUDA takes at most 32764 bytes of these.
static_assert(sizeof(Contributions<float, kMostSummedRanks>) + 64 <= 32764);

// The sum of a power of two of values, `stride` apart, in tree order.
template <int kRanks, class T>
__device__ Arithmetic<T> tree_sum(const T* values, int stride) {
  if constexpr (kRanks == 1) {
    return load(*values);
  } else {
    return tree_sum<kRanks / 2, T>(values, stride) + tree_sum<kRanks / 2, T>(values + kRanks / 2 * stride, stride);
  }
}

// The sums of kCount elements. kExact: the number of ranks, a power of two, whose values are then all loaded at once;
// 0 if it is known only at run time.
template <int kCount, int kExact, int kRanks, class X>
__device__ void sum_in_tree_order(Arithmetic<X>* sum, const Contributions<X, kRanks>& x, int ranks, Size p) {
  const auto pack = [&](int rank) { return reinterpret_cast<const Pack<X, kCount>*>(x.of[rank])[p]; };
  if constexpr (kExact > 0) {
    Pack<X, kCount> packs[kExact];
#pragma unroll
    for (int rank = 0; rank < kExact; ++rank) packs[rank] = pack(rank);
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum[k] = tree_sum<kExact, X>(&packs[0].values[k], kCount);
  } else {
    constexpr int kLevels = 13;  // kMostSummedRanks < 2^12
    Arithmetic<X> sums[kLevels][kCount];
    const auto join_last_two = [&](int count) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) sums[count - 2][k] += sums[count - 1][k];
    };
    int trees = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Pack<X, kCount> values = pack(rank);
#pragma unroll
      for (int k = 0; k < kCount; ++k) sums[trees][k] = load(values.values[k]);
      ++trees;
      for (int done = rank + 1; done % 2 == 0; done /= 2) join_last_two(trees--);
    }
    while (trees > 1) join_last_two(trees--);
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum[k] = sums[0][k];
  }
}

template <class Y>
struct Addends {
  const Y* of[kMostAddends];
  int count;
};

// A block at a time adds kSumBlock elements. partials[b] = the sum of their squares, unless null.
template <int kCount, int kExact, int kRanks, class Y, class X>
__global__ void sum_ranks_kernel(Y* y_N, const __grid_constant__ Contributions<X, kRanks> x, int ranks, Size N,
                                 const __grid_constant__ Addends<Y> addends, double* partials) {
  constexpr Size kPacks = kSumBlock / kCount;
  for (Size block = blockIdx.x; block * kSumBlock < N; block += gridDim.x) {
    const Size begin = block * kPacks, end = begin + kPacks < N / kCount ? begin + kPacks : N / kCount;
    double sum_of_squares = 0;
#pragma unroll 2
    for (Size p = begin + threadIdx.x; p < end; p += blockDim.x) {
      Arithmetic<X> sum[kCount];
      sum_in_tree_order<kCount, kExact>(sum, x, ranks, p);
      std::common_type_t<Arithmetic<X>, Arithmetic<Y>> total[kCount];
#pragma unroll
      for (int k = 0; k < kCount; ++k) total[k] = sum[k];
      for (int i = 0; i < addends.count; ++i) {
        const auto addend = reinterpret_cast<const Pack<Y, kCount>*>(addends.of[i])[p];
#pragma unroll
        for (int k = 0; k < kCount; ++k) total[k] += load(addend.values[k]);
      }
      auto& y = reinterpret_cast<Pack<Y, kCount>*>(y_N)[p];
      Pack<Y, kCount> result;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        result.values[k] = store<Y>(static_cast<Arithmetic<Y>>(total[k]));
        if (partials == nullptr) continue;
        const double stored = static_cast<double>(load(result.values[k]));
        sum_of_squares += stored * stored;
      }
      y = result;
    }
    if (partials == nullptr) continue;
    sum_of_squares = block_sum(sum_of_squares);
    if (threadIdx.x == 0) partials[block] = sum_of_squares;
  }
}

template <class T>
__global__ void cumulative_sum_kernel(T* y_ORI, const T* x_ORI, MiddleShape m, bool reverse, bool accumulate) {
  for (Size column = thread_index(); column < m.O * m.I; column += thread_count()) {
    Arithmetic<T> sum = 0;
    for (Size r = 0; r < m.R; ++r) {
      const Size at = (column / m.I * m.R + (reverse ? m.R - 1 - r : r)) * m.I + column % m.I;
      sum += load(x_ORI[at]);
      y_ORI[at] = store<T>(accumulate ? load(y_ORI[at]) + sum : sum);
    }
  }
}

// Long rows are cut into chunks, so that a few rows keep the whole device busy.
template <class Out, class T>
void sum_within_rows(CudaStream stream, Out* out, const T* x, Size O, Size R, bool accumulate) {
  const auto launch = [&](const auto* from, Size length) {
    const Size blocks = (O * kWarp + kThreads - 1) / kThreads;
    sum_within_rows_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(stream)>>>(out, from, O, length,
                                                                                              accumulate);
  };
  const Size chunks = (R + kSumChunk - 1) / kSumChunk, bytes = O * chunks * static_cast<Size>(sizeof(Arithmetic<T>));
  if (R <= kLongRow || bytes > memory::kScratchBytes) return launch(x, R);
  auto* const partial = reinterpret_cast<Arithmetic<T>*>(memory::scratch(stream, bytes));
  sum_chunks_kernel<<<static_cast<unsigned>(O * chunks), kThreads, 0, stream_of(stream)>>>(partial, x, R, chunks);
  check_launch("sum_chunks");
  launch(partial, chunks);
}

}  // namespace

template <>
void sum_squares(CudaStream stream, DType dtype, double* sum, const void* x_N, Size N, double* partials, Size piece) {
  const Size blocks = sum_blocks(N, piece);
  double* partial = partials;
  if (partial == nullptr) {
    partial = reinterpret_cast<double*>(memory::scratch(stream, blocks * static_cast<Size>(sizeof(double))));
  }
  dispatch_float(dtype, [&]<class T>() {
    if (blocks == 0) return;
    block_squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(stream)>>>(
        partial, static_cast<const T*>(x_N), piece == 0 ? N : piece, sum_blocks(piece == 0 ? N : piece));
    check_launch("block_squares");
  });
  if (piece > 0 && N > 0) {
    sum_pieces_kernel<<<1, 1024, 0, stream_of(stream)>>>(sum, partial, static_cast<int>(N / piece), sum_blocks(piece));
  } else {
    sum_in_order_kernel<<<1, 1024, 0, stream_of(stream)>>>(sum, partial, blocks, 1.0, nullptr);
  }
  check_launch("sum_squares");
}

template <>
void sum_all(CudaStream stream, DType dtype, void* out, const void* x_N, Size N, double scale, const float* weight) {
  dispatch_float(dtype, [&]<class T>() {
    sum_in_order_kernel<<<1, 1024, 0, stream_of(stream)>>>(static_cast<T*>(out), static_cast<const T*>(x_N), N, scale,
                                                           weight);
  });
  check_launch("sum_all");
}

template <>
void sum_middle(CudaStream stream, DType out_dtype, void* out_OI, DType dtype, const void* x_ORI, const MiddleShape& m,
                bool accumulate) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    const T* const x = static_cast<const T*>(x_ORI);
    dispatch_output<T>("sum_middle", out_dtype, out_OI, dtype, [&](auto* out) {
      if (m.I == 1) {
        sum_within_rows(stream, out, x, m.O, m.R, accumulate);
      } else if (m.O == 1) {
        return sum_matrix_rows<Arithmetic<T>>(stream, out, x, m.R, m.I, accumulate);
      } else {
        sum_middle_kernel<<<blocks_for(stream, m.O * m.I), kThreads, 0, stream_of(stream)>>>(out, x, m.O, m.R, m.I,
                                                                                             accumulate);
      }
      check_launch("sum_middle");
    });
  });
}

template <>
void cumulative_sum(CudaStream stream, DType dtype, void* y_ORI, const void* x_ORI, const MiddleShape& m, bool reverse,
                    bool accumulate) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    cumulative_sum_kernel<<<blocks_for(stream, m.O * m.I), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_ORI), static_cast<const T*>(x_ORI), m, reverse, accumulate);
  });
  check_launch("cumulative_sum");
}

template <>
void sum_rows(CudaStream stream, DType out_dtype, void* out_C, DType dtype, const void* x_RC, Size R, Size C,
              bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    dispatch_output<T>("sum_rows", out_dtype, out_C, dtype, [&](auto* out) {
      sum_matrix_rows<Arithmetic<T>>(stream, out, static_cast<const T*>(x_RC), R, C, accumulate);
    });
  });
}

template <>
void sum_ranks(CudaStream stream, DType y_dtype, void* y_N, DType x_dtype, const void* const* x, int ranks, Size N,
               std::span<const void* const> addends, double* squares, double* partials, Size blocks_before) {
  const Size blocks = sum_blocks(N);
  require_summed_ranks(DeviceType::cuda, ranks);
  dispatch_reduced(y_dtype, [&]<class Y>() {
    dispatch_reduced(x_dtype, [&]<class X>() {
      if (N == 0) return;
      constexpr int kMost = std::max(kPack<X>, kPack<Y>);
      static_assert(kMost <= kSumPack);
      bool packs = N % kMost == 0 && aligned(y_N);
      for (int i = 0; i < ranks; ++i) packs = packs && aligned(x[i]);
      Addends<Y> added{{}, static_cast<int>(addends.size())};
      for (std::size_t i = 0; i < addends.size(); ++i) {
        added.of[i] = static_cast<const Y*>(addends[i]), packs = packs && aligned(addends[i]);
      }
      dispatch_flag(packs, [&](auto whole) {
        constexpr int kCount = whole.value ? kMost : 1;
        const auto launch = [&]<int kExact, int kRanks>() {
          Contributions<X, kRanks> contributions;
          for (int i = 0; i < ranks; ++i) contributions.of[i] = static_cast<const X*>(x[i]);
          sum_ranks_kernel<kCount, kExact><<<blocks_for(stream, blocks, 1), kThreads, 0, stream_of(stream)>>>(
              static_cast<Y*>(y_N), contributions, ranks, N, added,
              partials == nullptr ? nullptr : partials + blocks_before);
        };
        if constexpr (whole.value) {
          if (ranks == 1) return launch.template operator()<1, 1>();
          if (ranks == 2) return launch.template operator()<2, 2>();
          if (ranks == 4) return launch.template operator()<4, 4>();
          if (ranks == 8) return launch.template operator()<8, 8>();
        }
        ranks <= kFewRanks ? launch.template operator()<0, kFewRanks>()
                           : launch.template operator()<0, kMostSummedRanks>();
      });
    });
  });
  check_launch("sum_ranks");
  if (squares == nullptr) return;
  sum_in_order_kernel<<<1, 1024, 0, stream_of(stream)>>>(squares, partials, blocks_before + blocks, 1.0, nullptr);
  check_launch("sum_ranks: squares");
}

}  // namespace lt::kernels
