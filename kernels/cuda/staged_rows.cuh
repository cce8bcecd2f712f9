// Streams rows through shared memory: while a warp works on a row, its next row is in flight. A lane copies and reads
// the same packs of 16 bytes of every row, so it waits only for its own copies. Rows that all warps read are also kept
// in shared memory.
#pragma once

#include <cuda_pipeline.h>

#include "kernels/cuda/packed.cuh"

namespace lt::kernels {

inline constexpr int kBlockWarps = 4, kBlockThreads = kBlockWarps * kWarp;
inline constexpr int kRowStages = 2;  // the row in use, and the next

// Layout of a row in one warp or in all warps of a block: pack p of a lane is the row's pack p * kLanes + lane. Every
// lane has the first kFullPacks of its kPacks.
template <int kPacksOfLane, int kFullPacksOfLane, int kWarpsOfRow>
struct RowShape {
  static constexpr int kPacks = kPacksOfLane, kFullPacks = kFullPacksOfLane, kWarps = kWarpsOfRow;
  static constexpr int kLanes = kWarps * kWarp, kRows = kBlockWarps / kWarps;  // rows of a block at a time
  static constexpr int kMaxPacks = kPacks * kLanes;
  static_assert(kWarps == 1 || kWarps == kBlockWarps);

  // Shared memory of a block with `kept` rows that all warps read, and stages for rows of `arrays` arrays.
  static constexpr Size shared_bytes(int kept, int arrays) {
    return Size{16} * kMaxPacks * (kept + kRowStages * arrays * kRows);
  }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  static __device__ int group() { return static_cast<int>(threadIdx.x) / kLanes; }
};

// R rows of `packs` packs of 16 bytes. Fewer than 2^30 in all, so an index one grid beyond the last row fits an int.
struct RowPacks {
  int R, packs;
};

template <class T>
__device__ Packed<T>* shared_packs() {
  extern __shared__ uint4 shared_row_memory[];
  return reinterpret_cast<Packed<T>*>(shared_row_memory);
}

// kept[n * kMaxPacks + i] = pack i of row n; zero beyond the row's end or if the row is null. The block must
// synchronise before it reads them.
template <class Shape, class T, class... Rows>
__device__ void keep_rows(Packed<T>* kept, int packs, const Rows*... rows_C) {
  constexpr int kRows = sizeof...(Rows), kEach = (Shape::kMaxPacks + kBlockThreads - 1) / kBlockThreads;
  const T* const from[] = {rows_C...};
  Packed<T> loaded[kRows][kEach]{};  // all loads precede the stores, so that they overlap if registers suffice
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = k * kBlockThreads + static_cast<int>(threadIdx.x);
      if (from[n] && i < packs) loaded[n][k] = reinterpret_cast<const Packed<T>*>(from[n])[i];
    }
  }
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = k * kBlockThreads + static_cast<int>(threadIdx.x);
      if (i < Shape::kMaxPacks) kept[n * Shape::kMaxPacks + i] = loaded[n][k];
    }
  }
}

template <class Shape, class T>
class StagedRows {
 public:
  static_assert(kRowStages == 2, "fetch(), wait() and at() take turns between two");

  // `memory` belongs to the block and holds kRowStages * arrays * kRows rows.
  __device__ StagedRows(Packed<T>* memory, int arrays, RowPacks s)
      : own_(memory + Shape::group() * kRowStages * arrays * Shape::kMaxPacks + Shape::lane()),
        stage_packs_(arrays * Shape::kMaxPacks),
        s_(s),
        packs_((s.packs - Shape::lane() + Shape::kLanes - 1) / Shape::kLanes) {
    for (int i = 0; i < kRowStages * arrays; ++i) {
      for (int p = packs_; p < Shape::kPacks; ++p) own_[(i * Shape::kPacks + p) * Shape::kLanes] = {};
    }
  }

  // Starts to copy row r of every array that is not null. Copies nothing beyond the last row.
  template <class... Arrays>
  __device__ void fetch(int r, const Arrays*... x_RC) {
    if (r < s_.R) {
#pragma unroll
      for (int p = 0; p < Shape::kPacks; ++p) {
        if (!holds(p)) continue;
        int array = 0;
        (copy(array++, p, x_RC, r), ...);
      }
    }
    __pipeline_commit();
    next_ ^= 1;
  }
  // Waits for the row requested before the last fetch(). at() then returns it.
  __device__ void wait() { __pipeline_wait_prior(1); }

  // Valid from wait() to the next fetch(). Zero beyond the row's end.
  __device__ Packed<T> at(int array, int p) const { return *place(next_, array, p); }
  __device__ bool holds(int p) const { return p < Shape::kFullPacks || p < packs_; }
  __device__ void write(T* y_RC, int r, int p, const Packed<T>& value) const {
    if (holds(p)) reinterpret_cast<Packed<T>*>(y_RC)[index(r, p)] = value;
  }

 private:
  __device__ Packed<T>* place(int stage, int array, int p) const {
    return own_ + stage * stage_packs_ + (array * Shape::kPacks + p) * Shape::kLanes;
  }
  __device__ unsigned index(int r, int p) const {
    return static_cast<unsigned>(r * s_.packs + p * Shape::kLanes + Shape::lane());
  }
  __device__ void copy(int array, int p, const T* x_RC, int r) {
    if (!x_RC) return;
    __pipeline_memcpy_async(place(next_, array, p), reinterpret_cast<const Packed<T>*>(x_RC) + index(r, p), 16);
  }

  Packed<T>* own_;
  int stage_packs_;
  RowPacks s_;
  int packs_;     // packs of this lane
  int next_ = 0;  // the stage that the next fetch() fills; until then at() reads it
};

// Sums over the lanes and warps of a row in a fixed order; every lane gets the same numbers. All lanes must call it
// equally often, with up to kMostSums numbers.
template <class Shape>
class RowSums {
 public:
  template <int kCount>
  __device__ void operator()(float (&x)[kCount]) {
    static_assert(kCount <= kMostSums);
#pragma unroll
    for (int k = 0; k < kCount; ++k) x[k] = warp_sum(x[k]);
    if constexpr (Shape::kWarps > 1) {
      // Two buffers alternate: a warp past the barrier of call n + 1 knows that all have read the buffer of call n.
      __shared__ float parts[2][kMostSums][kBlockWarps];
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (threadIdx.x % kWarp == 0) parts[turn_][k][threadIdx.x / kWarp] = x[k];
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        x[k] = 0;
#pragma unroll
        for (int i = 0; i < Shape::kWarps; ++i) x[k] += parts[turn_][k][i];
      }
      turn_ ^= 1;
    }
  }
  __device__ float operator()(float x) {
    float one[] = {x};
    (*this)(one);
    return one[0];
  }

 private:
  static constexpr int kMostSums = 2;
  int turn_ = 0;
};

// out_C[c] = the sum of column c over the block's rows. Each lane's sums are in `own`. `memory` must hold kRows rows in
// f32; no copy to it may be in flight.
template <class Shape, class T>
__device__ void add_rows_of_block(float* out_C, float* memory, const float (&own)[Shape::kPacks][kPack<T>], int C) {
  constexpr int kColumns = Shape::kMaxPacks * kPack<T>;
  __syncthreads();
#pragma unroll
  for (int p = 0; p < Shape::kPacks; ++p) {
#pragma unroll
    for (int k = 0; k < kPack<T>; k += 4) {
      const int column = (p * Shape::kLanes + Shape::lane()) * kPack<T> + k;
      *reinterpret_cast<float4*>(memory + Shape::group() * kColumns + column) =
          make_float4(own[p][k], own[p][k + 1], own[p][k + 2], own[p][k + 3]);
    }
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < C; c += kBlockThreads) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Shape::kRows; ++i) sum += memory[i * kColumns + c];
    out_C[c] = sum;
  }
}

// Packs per lane and warps per row: a RowShape without its full packs.
template <int kPacksOfLane, int kWarpsOfRow>
struct RowSize {
  static constexpr int kPacks = kPacksOfLane, kWarps = kWarpsOfRow;
};
// Sorted by packs per row, ascending.
template <class... Sizes>
struct RowSizes {};

// Calls f(Shape{}) for the smallest size that holds rows of `packs` packs (> kHeld). Returns false if no size does.
template <int kHeld = 0, class F>
bool dispatch_row_shape(RowSizes<>, Size, F&&) {
  return false;
}
template <int kHeld = 0, class First, class... Rest, class F>
bool dispatch_row_shape(RowSizes<First, Rest...>, Size packs, F&& f) {
  using Shape = RowShape<First::kPacks, (kHeld + 1) / (First::kWarps * kWarp), First::kWarps>;
  if (packs > Shape::kMaxPacks) return dispatch_row_shape<Shape::kMaxPacks>(RowSizes<Rest...>{}, packs, f);
  f(Shape{});
  return true;
}

}  // namespace lt::kernels
