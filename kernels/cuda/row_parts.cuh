// Rows in the registers of a block, 16 bytes to a thread, and sums of several numbers over it at a time.
#pragma once

#include "kernels/cuda/packed.cuh"

namespace lt::kernels {

// Returns in lane l the warp's sum of x[l / (32 / kCount)], kCount a power of two: half of the values go to the other
// half of the lanes, until each has one.
template <int kCount, class A>
__device__ A warp_sums(A (&x)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int offset = kWarp / 2;
#pragma unroll
  for (int count = kCount; count > 1; count /= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const A sent = upper ? x[i] : x[i + count / 2];
      x[i] = (upper ? x[i + count / 2] : x[i]) + __shfl_xor_sync(0xffffffffu, sent, offset);
    }
    offset /= 2;
  }
#pragma unroll
  for (; offset > 0; offset /= 2) x[0] += __shfl_xor_sync(0xffffffffu, x[0], offset);
  return x[0];
}

// Each x[i] becomes its sum over the block, in every thread, in a fixed order. `parts` is shared memory that the call
// before did not use.
template <int kCount, class A>
__device__ void block_sums(A (&x)[kCount], A (*parts)[kCount]) {
  constexpr int kLanesOfValue = kWarp / kCount;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  A own = warp_sums(x);
  if (warps > 1) {
    if (lane % kLanesOfValue == 0) parts[warp][lane / kLanesOfValue] = own;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = lane < warps ? parts[lane][i] : A(0);
    own = warp_sums(x);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = __shfl_sync(0xffffffffu, own, i * kLanesOfValue);
}

// R rows of `packs` times 16 bytes, fewer than 2^31 of these together.
struct RowPacks {
  int R, packs;
};

// The 16 bytes that a thread has of each of kRows rows; beyond the last row, and beyond a row's end, they are zero.
template <int kRows, class T>
struct RowParts {
  Packed<T> of[kRows];

  __device__ void read(const T* x_RC, int first, RowPacks s) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) of[i] = holds(first + i, s) ? *place(x_RC, first + i, s) : Packed<T>{};
  }
  __device__ void write(T* x_RC, int first, RowPacks s) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (holds(first + i, s)) *const_cast<Packed<T>*>(place(x_RC, first + i, s)) = of[i];
    }
  }
  __device__ void stay_packed() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) of[i].stay_packed();
  }
  static __device__ bool holds(int r, RowPacks s) { return r < s.R && static_cast<int>(threadIdx.x) < s.packs; }
  static __device__ const Packed<T>* place(const T* x_RC, int r, RowPacks s) {
    return reinterpret_cast<const Packed<T>*>(x_RC) +
           static_cast<unsigned>(r * s.packs + static_cast<int>(threadIdx.x));
  }
};

}  // namespace lt::kernels
