// Sums in a fixed order on the GPU: the order depends on sizes alone.
#include "kernels/reduce.h"
#include "memory/workspace.h"

#include "kernels/cuda/columns.cuh"

namespace lt::kernels {
namespace {

template <class T>
__global__ void block_squares_kernel(double* partial, const T* x_N, Size N) {
  const Size begin = static_cast<Size>(blockIdx.x) * kSumBlock, end = begin + kSumBlock < N ? begin + kSumBlock : N;
  double sum = 0;
  for (Size i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const double x = static_cast<double>(load(x_N[i]));
    sum += x * x;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block: the thread's elements in order, then the threads.
template <class Y, class T>
__global__ void sum_in_order_kernel(Y* out, const T* x_N, Size N, double scale) {
  double sum = 0;
  for (Size i = threadIdx.x; i < N; i += blockDim.x) sum += static_cast<double>(load(x_N[i]));
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = store<Y>(static_cast<Arithmetic<Y>>(scale * sum));
}

// A warp to each output where the summed elements are next to each other, else a thread.
template <class Out, class T>
__global__ void sum_within_rows_kernel(Out* out_O, const T* x_OR, Size O, Size R, bool accumulate) {
  const Size o = thread_index() / kWarp;
  if (o >= O) return;
  Arithmetic<T> sum = 0;
  for (Size r = threadIdx.x % kWarp; r < R; r += kWarp) sum += load(x_OR[o * R + r]);
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) out_O[o] = store<Out>(accumulate ? load(out_O[o]) + sum : sum);
}

// partial[o, chunk] = the sum of kSumChunk elements of row o, a block each.
constexpr Size kSumChunk = 16384, kLongRow = 4 * kSumChunk;
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
    Arithmetic<T> sum = 0;
    for (Size r = 0; r < R; ++r) sum += load(x[r * I]);
    out_OI[k] = store<Out>(accumulate ? load(out_OI[k]) + sum : sum);
  }
}

constexpr int kFewRanks = 64, kMostRanks = 4000;
template <class X, int kRanks>
struct Contributions {
  const X* of[kRanks];
};
// The pointers are parameters of the launch, for which CUDA takes at most 32764 bytes.
static_assert(sizeof(Contributions<float, kMostRanks>) + 64 <= 32764);

template <int kCount, int kRanks, class Y, class X>
__global__ void sum_ranks_kernel(Y* y_N, const __grid_constant__ Contributions<X, kRanks> x, int ranks, Size N,
                                 bool accumulate) {
  using A = Arithmetic<X>;
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    A sum[kCount] = {};
#pragma unroll 4
    for (int rank = 0; rank < ranks; ++rank) {
      const auto pack = reinterpret_cast<const Pack<X, kCount>*>(x.of[rank])[p];
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum[k] = rank == 0 ? load(pack.values[k]) : sum[k] + load(pack.values[k]);
    }
    auto& y = reinterpret_cast<Pack<Y, kCount>*>(y_N)[p];
    Pack<Y, kCount> result;
    if (accumulate) result = y;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      result.values[k] = store<Y>(static_cast<Arithmetic<Y>>(accumulate ? load(result.values[k]) + sum[k] : sum[k]));
    }
    y = result;
  }
}

// Long rows are cut, so that few of them keep the whole device busy.
template <class Out, class T>
void sum_within_rows(CudaStream stream, Out* out, const T* x, Size O, Size R, bool accumulate) {
  const auto launch = [&](const auto* from, Size length) {
    const Size blocks = (O * kWarp + kThreads - 1) / kThreads;
    sum_within_rows_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(stream)>>>(out, from, O, length,
                                                                                              accumulate);
  };
  const Size chunks = (R + kSumChunk - 1) / kSumChunk, bytes = O * chunks * static_cast<Size>(sizeof(Arithmetic<T>));
  if (R <= kLongRow || bytes > cuda::kScratchBytes) return launch(x, R);
  auto* const partial = reinterpret_cast<Arithmetic<T>*>(cuda::scratch(stream, bytes));
  sum_chunks_kernel<<<static_cast<unsigned>(O * chunks), kThreads, 0, stream_of(stream)>>>(partial, x, R, chunks);
  check_launch("sum_chunks");
  launch(partial, chunks);
}

// Calls f(out) with the output in its own type: that of x, or of gradients.
template <class T, class F>
void with_output(const char* kernel, DType out_dtype, void* out, DType dtype, F f) {
  if (out_dtype == dtype) return f(static_cast<T*>(out));
  if (out_dtype != gradient_dtype(dtype)) {
    throw InternalError("kernels", std::string(kernel) + ": expected sums in " +
                                       std::string(dtype_name(gradient_dtype(dtype))) + ", found " +
                                       std::string(dtype_name(out_dtype)));
  }
  f(static_cast<Arithmetic<T>*>(out));
}

}  // namespace

template <>
void sum_squares(CudaStream stream, DType dtype, double* sum, const void* x_N, Size N, double* partials) {
  const Size blocks = sum_blocks(N);
  double* partial = partials;
  if (partial == nullptr) {
    partial = reinterpret_cast<double*>(cuda::scratch(stream, blocks * static_cast<Size>(sizeof(double))));
  }
  dispatch_float(dtype, [&]<class T>() {
    if (blocks == 0) return;
    block_squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(stream)>>>(
        partial, static_cast<const T*>(x_N), N);
    check_launch("block_squares");
  });
  sum_in_order_kernel<<<1, 1024, 0, stream_of(stream)>>>(sum, partial, blocks, 1.0);
  check_launch("sum_squares");
}

template <>
void sum_all(CudaStream stream, DType dtype, void* out, const void* x_N, Size N, double scale) {
  dispatch_float(dtype, [&]<class T>() {
    sum_in_order_kernel<<<1, 1024, 0, stream_of(stream)>>>(static_cast<T*>(out), static_cast<const T*>(x_N), N, scale);
  });
  check_launch("sum_all");
}

template <>
void sum_middle(CudaStream stream, DType out_dtype, void* out_OI, DType dtype, const void* x_ORI, const Middle& m,
                bool accumulate) {
  if (m.O * m.I == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    const T* const x = static_cast<const T*>(x_ORI);
    with_output<T>("sum_middle", out_dtype, out_OI, dtype, [&](auto* out) {
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
void sum_rows(CudaStream stream, DType out_dtype, void* out_C, DType dtype, const void* x_RC, Size R, Size C,
              bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    with_output<T>("sum_rows", out_dtype, out_C, dtype, [&](auto* out) {
      sum_matrix_rows<Arithmetic<T>>(stream, out, static_cast<const T*>(x_RC), R, C, accumulate);
    });
  });
}

template <>
void sum_ranks(CudaStream stream, DType y_dtype, void* y_N, DType x_dtype, const void* const* x, int ranks, Size N,
               bool accumulate) {
  if (N == 0) return;
  if (ranks > kMostRanks) {
    throw InternalError("kernels", "sum_ranks: expected at most " + std::to_string(kMostRanks) + " ranks, got " +
                                       std::to_string(ranks));
  }
  dispatch_float(y_dtype, [&]<class Y>() {
    dispatch_float(x_dtype, [&]<class X>() {
      constexpr int kMost = std::max(kPack<X>, kPack<Y>);
      bool packs = N % kMost == 0 && aligned(y_N);
      for (int i = 0; i < ranks; ++i) packs = packs && aligned(x[i]);
      dispatch_flag(packs, [&](auto whole) {
        dispatch_flag(ranks <= kFewRanks, [&](auto few) {
          constexpr int kCount = whole.value ? kMost : 1, kRanks = few.value ? kFewRanks : kMostRanks;
          Contributions<X, kRanks> contributions;
          for (int i = 0; i < ranks; ++i) contributions.of[i] = static_cast<const X*>(x[i]);
          sum_ranks_kernel<kCount><<<blocks_for(stream, N / kCount), kThreads, 0, stream_of(stream)>>>(
              static_cast<Y*>(y_N), contributions, ranks, N, accumulate);
        });
      });
    });
  });
  check_launch("sum_ranks");
}

}  // namespace lt::kernels
