// Sums over the rows of a matrix, column by column, in an order that depends on the shape alone: blocks of rows first,
// into scratch memory, then the blocks in order.
#pragma once

#include <algorithm>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {

// How R rows are cut: about two blocks of rows a multiprocessor of a large GPU for narrow matrices, fewer for wide
// ones.
struct RowCut {
  Size rows, count;  // of a block; blocks

  RowCut(Size R, Size C) {
    const Size columns = (C + kWarp - 1) / kWarp;
    const Size wanted = std::max<Size>(1, 2048 / columns);
    rows = std::max<Size>(16, (R + wanted - 1) / wanted);
    count = (R + rows - 1) / rows;
  }
};

inline constexpr int kColumnRows = 8;  // threads of a block that share a column

// partial[block][c] = sum of f(r, c) over the block's rows. Blocks of 32 columns x kColumnRows threads.
template <class A, class F>
__global__ void column_partials_kernel(A* partial, Size R, Size C, Size rows, F f) {
  __shared__ A sums[kColumnRows][kWarp];
  const Size c = static_cast<Size>(blockIdx.x) * kWarp + threadIdx.x;
  const Size begin = static_cast<Size>(blockIdx.y) * rows, end = begin + rows < R ? begin + rows : R;
  A sum = 0;
  if (c < C) {
    for (Size r = begin + threadIdx.y; r < end; r += kColumnRows) sum += f(r, c);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= C) return;
  for (int k = 1; k < kColumnRows; ++k) sum += sums[k][threadIdx.x];
  partial[static_cast<Size>(blockIdx.y) * C + c] = sum;
}

template <class A, class Y>
__global__ void combine_partials_kernel(Y* out_C, const A* partial, Size blocks, Size C, bool accumulate) {
  const Size c = thread_index();
  if (c >= C) return;
  A sum = 0;
  for (Size block = 0; block < blocks; ++block) sum += partial[block * C + c];
  out_C[c] = store<Y>(static_cast<Arithmetic<Y>>(accumulate ? load(out_C[c]) + sum : sum));
}

template <class T>
struct Element {
  const T* x_RC;
  Size C;
  __device__ Arithmetic<T> operator()(Size r, Size c) const { return load(x_RC[r * C + c]); }
};

// out_C (+)= sum over r of f(r, c), a function object that gives an A.
template <class A, class Y, class F>
void sum_columns(CudaStream stream, Y* out_C, Size R, Size C, bool accumulate, F f) {
  if (C == 0) return;
  const RowCut cut(R, C);
  A* const partial = reinterpret_cast<A*>(cuda::scratch(stream, cut.count * C * static_cast<Size>(sizeof(A))));
  const dim3 grid(static_cast<unsigned>((C + kWarp - 1) / kWarp), static_cast<unsigned>(cut.count));
  if (cut.count > 0) {
    column_partials_kernel<<<grid, dim3(kWarp, kColumnRows), 0, stream_of(stream)>>>(partial, R, C, cut.rows, f);
    check_launch("column_partials");
  }
  combine_partials_kernel<<<static_cast<unsigned>((C + kThreads - 1) / kThreads), kThreads, 0, stream_of(stream)>>>(
      out_C, partial, cut.count, C, accumulate);
  check_launch("combine_partials");
}

}  // namespace lt::kernels
