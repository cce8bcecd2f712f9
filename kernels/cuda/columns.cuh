// Sums over the rows of a matrix, column by column, in an order that depends only on the shape: first each block of
// rows, into scratch memory, then the blocks in order.
#pragma once

#include <algorithm>

#include "kernels/cuda/common.cuh"
#include "kernels/reduce.h"
#include "memory/workspace.h"

namespace lt::kernels {

inline constexpr int kColumnRows = 8;      // threads of a block that share a column
inline constexpr int kCombiningRows = 32;  // like kColumnRows, when partial sums are combined

// Rows are cut for this many multiprocessors on every device, because the order of sums depends on the cut.
inline constexpr int kSumMultiprocessors = 132;
inline constexpr Size kPartialBlocks = 4 * kSumMultiprocessors;   // few enough to run at once on that many
inline constexpr Size kMostRows = kColumnRows * 4 * kLongestRun;  // of a block
inline constexpr Size kMostRowBlocks = 65535;                     // of a grid

// How R rows are cut into blocks. There are enough blocks to fill a large GPU, but none has few rows. None has so many
// rows that a thread's sum would lose digits, unless the limit `most` requires it.
struct RowCut {
  Size rows, count;  // rows per block; number of blocks

  // At most `most` blocks of rows.
  RowCut(Size R, Size blocks_of_columns, Size most) {
    const Size wanted = std::clamp<Size>(kPartialBlocks / std::max<Size>(1, blocks_of_columns), 1, most);
    const Size least = R / std::min(most, kMostRowBlocks) + 1;
    rows = std::clamp<Size>((R + wanted - 1) / wanted, 4 * kColumnRows, std::max<Size>(least, kMostRows));
    count = (R + rows - 1) / rows;
  }
};

// partial[block][c] = sum of f(r, first + c) over the block's rows, for c < C. f gives kCount columns at a time. A
// block has 32 x kColumnRows threads and takes 32 * kCount columns.
template <int kCount, class A, class F>
__global__ void column_partials_kernel(A* partial, Size R, Size first, Size C, Size rows, F f) {
  __shared__ A sums[kColumnRows][kCount][kWarp];
  const Size c = (static_cast<Size>(blockIdx.x) * kWarp + threadIdx.x) * kCount;
  const Size begin = static_cast<Size>(blockIdx.y) * rows, end = begin + rows < R ? begin + rows : R;
  A sum[kCount] = {};
  if (c < C) {
#pragma unroll 4
    for (Size r = begin + threadIdx.y; r < end; r += kColumnRows) f.add_to(sum, r, first + c);
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) sums[threadIdx.y][k][threadIdx.x] = sum[k];
  __syncthreads();
  if (threadIdx.y > 0 || c >= C) return;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    A total = sum[k];
    for (int y = 1; y < kColumnRows; ++y) total += sums[y][k][threadIdx.x];
    partial[static_cast<Size>(blockIdx.y) * C + c + k] = total;
  }
}

// Sums `blocks` rows of partial sums: C columns for `first` and, if second.out_C is not null, C further columns for
// `second`. Rows are `stride` elements apart. A block takes 32 columns; the blocks for `second` are in grid row 1.
template <class Y>
struct ColumnSums {
  Y* out_C;
  bool accumulate;
};
template <class A, class Y>
__global__ void combine_partials_kernel(ColumnSums<Y> first, ColumnSums<Y> second, const A* partial, Size blocks,
                                        Size stride, Size C) {
  __shared__ A sums[kCombiningRows][kWarp];
  const ColumnSums<Y> to = blockIdx.y == 0 ? first : second;
  if (!to.out_C) return;
  const Size c = static_cast<Size>(blockIdx.x) * kWarp + threadIdx.x;
  A sum = 0;
  if (c < C) {
    const A* const own = partial + blockIdx.y * C + c;
#pragma unroll 8
    for (Size block = threadIdx.y; block < blocks; block += kCombiningRows) sum += own[block * stride];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= C) return;
  for (int y = 1; y < kCombiningRows; ++y) sum += sums[y][threadIdx.x];
  to.out_C[c] = store<Y>(static_cast<Arithmetic<Y>>(to.accumulate ? load(to.out_C[c]) + sum : sum));
}

// `partial` is [blocks, C].
template <class A, class Y>
void combine_partials(CudaStream stream, Y* out_C, bool accumulate, const A* partial, Size blocks, Size C) {
  combine_partials_kernel<<<dim3(static_cast<unsigned>((C + kWarp - 1) / kWarp)), dim3(kWarp, kCombiningRows), 0,
                            stream_of(stream)>>>(ColumnSums<Y>{out_C, accumulate}, {}, partial, blocks, C, C);
  check_launch("combine_partials");
}
// `partial` is [blocks, 2 C], for two outputs; either may be null.
template <class A, class Y>
void combine_partials(CudaStream stream, Y* first_C, bool accumulate_first, Y* second_C, bool accumulate_second,
                      const A* partial, Size blocks, Size C) {
  const dim3 grid(static_cast<unsigned>((C + kWarp - 1) / kWarp), second_C ? 2 : 1);
  combine_partials_kernel<<<grid, dim3(kWarp, kCombiningRows), 0, stream_of(stream)>>>(
      ColumnSums<Y>{first_C, accumulate_first}, ColumnSums<Y>{second_C, accumulate_second}, partial, blocks, 2 * C, C);
  check_launch("combine_partials");
}

// Adapts f(r, c), which gives one column at a time.
template <class F>
struct OneColumn {
  F f;
  template <class A>
  __device__ void add_to(A (&sum)[1], Size r, Size c) const {
    sum[0] += f(r, c);
  }
};

template <class T>
struct Element {
  const T* x_RC;
  Size C;
  __device__ Arithmetic<T> operator()(Size r, Size c) const { return load(x_RC[r * C + c]); }
};

// Adds 16 bytes of a row at a time. Rows C elements apart must be aligned.
template <class T>
struct ElementPack {
  const T* x_RC;
  Size C;
  template <class A>
  __device__ void add_to(A (&sum)[kPack<T>], Size r, Size c) const {
    const auto pack = *reinterpret_cast<const Pack<T, kPack<T>>*>(x_RC + r * C + c);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) sum[k] += load(pack.values[k]);
  }
};

template <int kCount, class A, class Y, class F>
void sum_columns_by(CudaStream stream, Y* out_C, Size R, Size C, bool accumulate, F f) {
  // As many columns at a time as scratch memory can hold in one row of partial sums.
  constexpr Size kMostColumns =
      memory::kScratchBytes / static_cast<Size>(sizeof(A)) / (kWarp * kCount) * (kWarp * kCount);
  for (Size first = 0; first < C; first += kMostColumns) {
    const Size columns = std::min(kMostColumns, C - first);
    const Size blocks_of_columns = (columns + kWarp * kCount - 1) / (kWarp * kCount);
    const RowCut cut(R, blocks_of_columns, memory::kScratchBytes / (columns * static_cast<Size>(sizeof(A))));
    A* const partial =
        reinterpret_cast<A*>(memory::scratch(stream, cut.count * columns * static_cast<Size>(sizeof(A))));
    const dim3 grid(static_cast<unsigned>(blocks_of_columns), static_cast<unsigned>(cut.count));
    if (cut.count > 0) {
      column_partials_kernel<kCount>
          <<<grid, dim3(kWarp, kColumnRows), 0, stream_of(stream)>>>(partial, R, first, columns, cut.rows, f);
      check_launch("column_partials");
    }
    combine_partials(stream, out_C + first, accumulate, partial, cut.count, columns);
  }
}

// out_C (+)= sum over r of f(r, c). f is a function object that returns an A.
template <class A, class Y, class F>
void sum_columns(CudaStream stream, Y* out_C, Size R, Size C, bool accumulate, F f) {
  sum_columns_by<1, A>(stream, out_C, R, C, accumulate, OneColumn<F>{f});
}

// out_C (+)= sum of the rows of x_RC.
template <class A, class Y, class T>
void sum_matrix_rows(CudaStream stream, Y* out_C, const T* x_RC, Size R, Size C, bool accumulate) {
  if (C % kPack<T> == 0 && aligned(x_RC)) {
    sum_columns_by<kPack<T>, A>(stream, out_C, R, C, accumulate, ElementPack<T>{x_RC, C});
  } else {
    sum_columns<A>(stream, out_C, R, C, accumulate, Element<T>{x_RC, C});
  }
}

}  // namespace lt::kernels
