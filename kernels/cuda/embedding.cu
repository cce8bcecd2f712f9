// Embedding look-up and its gradient on the GPU. Backward, rows are sorted by their id (stably, so rows of one id stay
// in order) and a block adds the rows of one id up: no atomics, and the same bits each time.
#include "kernels/embedding.h"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/common.cuh"
#include "kernels/elementwise.h"

namespace lt::kernels {
namespace {

template <int kCount, class T>
__global__ void embedding_forward_kernel(T* y_MC, const T* table_VC, const T* positions_TC, const std::int32_t* ids_M,
                                         Size tokens, Size C, Size first) {
  using P = Pack<T, kCount>;
  const Size m = blockIdx.x;
  const P* const token = reinterpret_cast<const P*>(table_VC + static_cast<Size>(ids_M[m]) * C);
  const P* const position =
      positions_TC ? reinterpret_cast<const P*>(positions_TC + (first + m % tokens) * C) : nullptr;
  for (Size p = threadIdx.x; p < C / kCount; p += blockDim.x) {
    P row = token[p];
    if (position) {
      const P add = position[p];
#pragma unroll
      for (int k = 0; k < kCount; ++k) row.values[k] = store<T>(load(row.values[k]) + load(add.values[k]));
    }
    reinterpret_cast<P*>(y_MC + m * C)[p] = row;
  }
}

__global__ void row_numbers_kernel(std::int32_t* rows_M, Size M) {
  for (Size m = thread_index(); m < M; m += thread_count()) rows_M[m] = static_cast<std::int32_t>(m);
}

// A block to each sorted place and 256 columns; only that of an id's first place works.
template <class T>
__global__ void add_rows_of_id_kernel(Arithmetic<T>* dtable_VC, const T* dy_MC, const std::int32_t* ids_M,
                                      const std::int32_t* rows_M, Size M, Size C) {
  const Size place = blockIdx.x, id = ids_M[place];
  if (place > 0 && ids_M[place - 1] == id) return;
  const Size c = static_cast<Size>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (c >= C) return;
  Arithmetic<T> sum = 0;
  for (Size k = place; k < M && ids_M[k] == id; ++k) sum += load(dy_MC[static_cast<Size>(rows_M[k]) * C + c]);
  dtable_VC[id * C + c] += sum;
}

template <class T>
__global__ void add_positions_kernel(Arithmetic<T>* dpositions_TC, const T* dy_MC, Size M, Size tokens, Size C,
                                     Size max_tokens, bool accumulate) {
  for (Size i = thread_index(); i < max_tokens * C; i += thread_count()) {
    const Size t = i / C, c = i % C;
    Arithmetic<T> sum = accumulate ? dpositions_TC[i] : Arithmetic<T>(0);
    for (Size m = t; t < tokens && m < M; m += tokens) sum += load(dy_MC[m * C + c]);
    dpositions_TC[i] = sum;
  }
}

// The ids sorted, and the rows that they come from, in scratch memory.
struct SortedRows {
  std::int32_t *ids_M, *rows_M;
};

SortedRows sort_rows(CudaStream stream, const std::int32_t* ids_M, Size M) {
  const int count = static_cast<int>(M);
  std::size_t work = 0;
  std::int32_t* none = nullptr;
  LT_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, work, ids_M, none, none, none, count, 0, 32, stream_of(stream)));
  const Size column = (M * 4 + 255) / 256 * 256;
  std::byte* const memory = cuda::scratch(stream, 3 * column + static_cast<Size>(work));
  auto* const numbers = reinterpret_cast<std::int32_t*>(memory);
  SortedRows sorted{reinterpret_cast<std::int32_t*>(memory + column),
                    reinterpret_cast<std::int32_t*>(memory + 2 * column)};
  row_numbers_kernel<<<blocks_for(stream, M), kThreads, 0, stream_of(stream)>>>(numbers, M);
  check_launch("row_numbers");
  LT_CUDA(cub::DeviceRadixSort::SortPairs(memory + 3 * column, work, ids_M, sorted.ids_M, numbers, sorted.rows_M, count,
                                          0, 32, stream_of(stream)));
  return sorted;
}

}  // namespace

template <>
void embedding_forward(CudaStream stream, DType dtype, void* y_MC, const void* table_VC, const void* positions_TC,
                       const std::int32_t* ids_M, Size M, Size T, Size C, Size first) {
  if (M * C == 0) return;
  dispatch_float(dtype, [&]<class E>() {
    E* const y = static_cast<E*>(y_MC);
    const E *const table = static_cast<const E*>(table_VC), *const positions = static_cast<const E*>(positions_TC);
    dispatch_flag(C % kPack<E> == 0 && aligned(y, table, positions), [&](auto whole) {
      embedding_forward_kernel<whole.value ? kPack<E> : 1>
          <<<static_cast<unsigned>(M), 128, 0, stream_of(stream)>>>(y, table, positions, ids_M, T, C, first);
    });
  });
  check_launch("embedding_forward");
}

template <>
void embedding_backward(CudaStream stream, DType dtype, void* dtable_VC, bool accumulate_table, void* dpositions_TC,
                        bool accumulate_positions, const void* dy_MC, const std::int32_t* ids_M, Size M, Size T, Size C,
                        Size V, Size max_T) {
  if (dtable_VC && !accumulate_table) fill_zero(stream, dtable_VC, V * C * dtype_bytes(gradient_dtype(dtype)));
  if (C == 0) return;
  dispatch_float(dtype, [&]<class E>() {
    using A = Arithmetic<E>;
    const E* const dy = static_cast<const E*>(dy_MC);
    if (dtable_VC && M > 0) {
      const SortedRows sorted = sort_rows(stream, ids_M, M);
      const dim3 grid(static_cast<unsigned>(M), static_cast<unsigned>((C + kThreads - 1) / kThreads));
      add_rows_of_id_kernel<<<grid, kThreads, 0, stream_of(stream)>>>(static_cast<A*>(dtable_VC), dy, sorted.ids_M,
                                                                      sorted.rows_M, M, C);
      check_launch("add_rows_of_id");
    }
    if (dpositions_TC && max_T > 0) {
      add_positions_kernel<<<blocks_for(stream, max_T * C), kThreads, 0, stream_of(stream)>>>(
          static_cast<A*>(dpositions_TC), dy, M, T, C, max_T, accumulate_positions);
      check_launch("add_positions");
    }
  });
}

}  // namespace lt::kernels
