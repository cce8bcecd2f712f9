// Norms whose warps load rows through shared memory, so that the next rows are in flight while one is processed. In the
// backward, lanes keep the column sums for the gradients of the parameters.
#pragma once

#include <limits>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/staged_rows.cuh"
#include "memory/workspace.h"

namespace lt::kernels {

// One warp takes a row of up to 2048 columns of two bytes in the forward, and up to 1280 in the backward, where the
// column sums need registers too.
using ForwardSizes = RowSizes<RowSize<2, 1>, RowSize<3, 1>, RowSize<4, 1>, RowSize<5, 1>, RowSize<7, 1>, RowSize<8, 1>,
                              RowSize<4, 4>, RowSize<8, 4>>;
using BackwardSizes =
    RowSizes<RowSize<2, 1>, RowSize<3, 1>, RowSize<4, 1>, RowSize<5, 1>, RowSize<2, 4>, RowSize<4, 4>, RowSize<8, 4>>;

// The target number of blocks per multiprocessor, if registers suffice.
inline constexpr int kForwardBlocks = 6;
// Fewer if lanes hold more sums in registers; these values are the fastest on H200. They decide how rows are cut, so
// the bits of the parameters' gradients depend on them.
template <class Shape>
constexpr int backward_blocks() {
  constexpr bool kOneWarp = Shape::kWarps == 1;
  if (Shape::kPacks > (kOneWarp ? 4 : 2)) return 2;
  return kOneWarp ? 3 : 4;
}

// Number of rows that a block of the forward keeps in shared memory: w, and b if centred.
template <bool kCentred>
inline constexpr int kForwardKept = kCentred ? 2 : 1;

template <class Shape, bool kCentred, class T>
__global__ void __launch_bounds__(kBlockThreads, kForwardBlocks)
    norm_forward_kernel(T* y_RC, float* mean_R, float* rstd_R, const T* x_RC, const T* w_C, const T* b_C, RowPacks s,
                        float eps) {
  let_next_kernel_start();
  constexpr int kPacks = Shape::kPacks;
  constexpr bool kHold = kPacks <= 4;  // in registers, from one pass over the row to the next
  constexpr int kHeld = kHold ? kPacks : 1;
  Packed<T>*const kept_w = shared_packs<T>(), *const kept_b = kept_w + Shape::kMaxPacks;
  StagedRows<Shape, T> rows(kept_w + kForwardKept<kCentred> * Shape::kMaxPacks, 1, s);
  RowSums<Shape> row_sum;
  const float count = static_cast<float>(s.packs * kPack<T>);
  const int step = static_cast<int>(gridDim.x) * Shape::kRows;
  int r = static_cast<int>(blockIdx.x) * Shape::kRows + Shape::group();
  rows.fetch(r, x_RC);
  if constexpr (kCentred) {
    keep_rows<Shape>(kept_w, s.packs, w_C, b_C);
  } else {
    keep_rows<Shape>(kept_w, s.packs, w_C);
  }
  __syncthreads();
  for (; r < s.R; r += step) {
    rows.fetch(r + step, x_RC);
    rows.wait();
    Packed<T> held[kHeld]{};
    if constexpr (kHold) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) held[p] = rows.at(0, p);
    }
    const auto x_of = [&](int p) { return kHold ? held[p % kHeld] : rows.at(0, p); };
    float mean = 0, squares = 0;
    if constexpr (kCentred) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const Packed<T> x = x_of(p);
        float part = 0;  // one chain of additions per pack, so that packs do not wait for each other
#pragma unroll
        for (int k = 0; k < kPack<T>; ++k) part += x[k];
        mean += part;
      }
      mean = row_sum(mean) / count;
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const Packed<T> x = x_of(p);
      const float centre = rows.holds(p) ? mean : 0.0f;  // beyond the row's end x is zero
      float part = 0;
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) part = fmaf(x[k] - centre, x[k] - centre, part);
      squares += part;
    }
    const float rstd = 1.0f / sqrtf(row_sum(squares) / count + eps), shift = -mean * rstd;
    if constexpr (kHold) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) held[p].stay_packed();
    }
    constexpr int kUnroll = kHold ? kPacks : 2;
#pragma unroll kUnroll
    for (int p = 0; p < kPacks; ++p) {
      const int column = p * Shape::kLanes + Shape::lane();
      const Packed<T> x = x_of(p), w = kept_w[column], b = kCentred ? kept_b[column] : Packed<T>{};
      Packed<T> y;
      y.fill([&](int k) { return kCentred ? fmaf(fmaf(x[k], rstd, shift), w[k], b[k]) : x[k] * rstd * w[k]; });
      rows.write(y_RC, r, p, y);
    }
    if (Shape::lane() > 0) continue;
    if (kCentred) mean_R[r] = mean;
    rstd_R[r] = rstd;
  }
}

// With h = (x - mean) * rstd and g = dy * w: dx = rstd * (g - h * mean_C(g * h) - [centred] mean_C(g)).
// partial[block] = the sums of dy * h over its rows, then the sums of dy.
template <class Shape, bool kCentred, class T>
__global__ void __launch_bounds__(kBlockThreads, backward_blocks<Shape>())
    norm_backward_kernel(T* dx_RC, bool accumulate, float* partial, const T* dy_RC, const T* x_RC, const T* w_C,
                         const float* mean_R, const float* rstd_R, RowPacks s) {
  constexpr int kPacks = Shape::kPacks;
  // Rows stay in registers between the two passes over them if the column sums leave enough registers.
  constexpr bool kHold = kPacks * kPack<T> * (kCentred ? 2 : 1) <= 64;
  constexpr int kHeld = kHold ? kPacks : 1;
  Packed<T>* const kept_w = shared_packs<T>();
  const T* const before_RC = accumulate ? dx_RC : nullptr;
  StagedRows<Shape, T> rows(kept_w + Shape::kMaxPacks, accumulate ? 3 : 2, s);
  RowSums<Shape> row_sum;
  float dw[kPacks][kPack<T>] = {}, db[kPacks][kPack<T>] = {};
  const float inverse_count = 1.0f / static_cast<float>(s.packs * kPack<T>);
  const int step = static_cast<int>(gridDim.x) * Shape::kRows;
  int r = static_cast<int>(blockIdx.x) * Shape::kRows + Shape::group();
  float next_mean = 0, next_rstd = 0;
  const auto fetch = [&](int row) {
    rows.fetch(row, x_RC, dy_RC, before_RC);
    if (row >= s.R) return;
    if (kCentred) next_mean = mean_R[row];
    next_rstd = rstd_R[row];
  };
  fetch(r);
  keep_rows<Shape>(kept_w, s.packs, w_C);
  __syncthreads();
  for (; r < s.R; r += step) {
    const float mean = next_mean, rstd = next_rstd, h_shift = -mean * rstd;
    fetch(r + step);
    rows.wait();
    Packed<T> held_x[kHeld], held_dy[kHeld];
    float sums[kCentred ? 2 : 1] = {};  // g * h, and g
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Packed<T> x = rows.at(0, p), dy = rows.at(1, p);
      const Packed<T> w = kept_w[p * Shape::kLanes + Shape::lane()];
      float part_gh = 0, part_g = 0;
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) {
        const float d = dy[k], g = d * w[k], h = kCentred ? fmaf(x[k], rstd, h_shift) : x[k] * rstd;
        part_gh = fmaf(g, h, part_gh);
        dw[p][k] = fmaf(d, h, dw[p][k]);
        if constexpr (kCentred) part_g += g, db[p][k] += d;
      }
      sums[0] += part_gh;
      if constexpr (kCentred) sums[1] += part_g;
      if constexpr (kHold) {
        x.stay_packed(), dy.stay_packed();
        held_x[p] = x, held_dy[p] = dy;
      }
    }
    if (!dx_RC) continue;
    // rstd * (g - mean_g) - h * rstd * mean_gh, where h is a multiple of x plus a shift.
    row_sum(sums);
    const float mean_gh = sums[0] * inverse_count, factor = -rstd * rstd * mean_gh;
    float shift = 0;
    if constexpr (kCentred) shift = -mean * factor - rstd * (sums[1] * inverse_count);
#pragma unroll kHeld
    for (int p = 0; p < kPacks; ++p) {
      const Packed<T> x = kHold ? held_x[p % kHeld] : rows.at(0, p), dy = kHold ? held_dy[p % kHeld] : rows.at(1, p);
      const Packed<T> w = kept_w[p * Shape::kLanes + Shape::lane()], before = accumulate ? rows.at(2, p) : Packed<T>{};
      Packed<T> dx;
      dx.fill([&](int k) {
        const float rest = kCentred ? fmaf(x[k], factor, shift) : x[k] * factor;
        const float value = fmaf(dy[k] * w[k], rstd, rest);
        return accumulate ? before[k] + value : value;
      });
      rows.write(dx_RC, r, p, dx);
    }
  }
  if (!partial) return;
  const int C = s.packs * kPack<T>;
  float* const sums = partial + static_cast<Size>(blockIdx.x) * 2 * C;
  float* const memory = reinterpret_cast<float*>(kept_w);
  add_rows_of_block<Shape, T>(sums, memory, dw, C);
  if constexpr (kCentred) add_rows_of_block<Shape, T>(sums + C, memory, db, C);
}

// Rows for the staged kernels; `packs` is 0 if the rows must be read again for each pass.
template <class T, class... Pointers>
RowPacks row_packs(Size R, Size C, Pointers... pointers) {
  const Size packs = C / kPack<T>;
  const bool fits = C % kPack<T> == 0 && aligned(pointers...) && R * packs < std::numeric_limits<int>::max() / 2;
  return {static_cast<int>(R), fits ? static_cast<int>(packs) : 0};
}

// Returns the number of blocks of kKernel that the stream's device runs at once; 0 if it has less shared memory than
// kBytes.
template <auto kKernel, Size kBytes>
int resident_blocks(CudaStream stream) {
  static thread_local int device = -1, blocks = 0;
  if (device == stream.device) return blocks;
  int most = 0, each = 0;
  LT_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, stream.device));
  if (kBytes <= most) {
    LT_CUDA(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes)));
    LT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kKernel, kBlockThreads, kBytes));
  }
  device = stream.device, blocks = each * multiprocessors(stream);
  return blocks;
}

template <bool kCentred, class T>
bool staged_norm_forward(CudaStream stream, T* y, float* mean, float* rstd, const T* x, const T* w, const T* b,
                         RowPacks s, float eps) {
  bool done = false;
  dispatch_row_shape(ForwardSizes{}, s.packs, [&]<class Shape>(Shape) {
    constexpr auto kKernel = norm_forward_kernel<Shape, kCentred, T>;
    constexpr Size kBytes = Shape::shared_bytes(kForwardKept<kCentred>, 1);
    const int together = resident_blocks<kKernel, kBytes>(stream), wanted = (s.R + Shape::kRows - 1) / Shape::kRows;
    if (together == 0) return;
    kKernel<<<static_cast<unsigned>(std::min(together, wanted)), kBlockThreads, kBytes, stream_of(stream)>>>(
        y, mean, rstd, x, w, b, s, eps);
    check_launch("norm_forward");
    done = true;
  });
  return done;
}

// Gradients of the parameters in f32; either may be null.
struct ColumnGradients {
  float* dw_C;
  bool accumulate_dw;
  float* db_C;
  bool accumulate_db;
};

template <bool kCentred, class T>
bool staged_norm_backward(CudaStream stream, T* dx, bool accumulate_dx, const ColumnGradients& columns, const T* dy,
                          const T* x, const T* w, const float* mean, const float* rstd, RowPacks s) {
  bool done = false;
  dispatch_row_shape(BackwardSizes{}, s.packs, [&]<class Shape>(Shape) {
    constexpr auto kKernel = norm_backward_kernel<Shape, kCentred, T>;
    // Requires shared memory for dx even if dx is not added to, because the order of sums must not depend on that.
    if (resident_blocks<kKernel, Shape::shared_bytes(1, 3)>(stream) == 0) return;
    const int blocks =
        std::min(kSumMultiprocessors * backward_blocks<Shape>(), (s.R + Shape::kRows - 1) / Shape::kRows);
    const Size C = Size{s.packs} * kPack<T>, bytes = blocks * 2 * C * static_cast<Size>(sizeof(float));
    const bool sums = columns.dw_C || columns.db_C;
    float* const partial = sums ? reinterpret_cast<float*>(memory::scratch(stream, bytes)) : nullptr;
    const Size shared = Shape::shared_bytes(1, accumulate_dx ? 3 : 2);
    kKernel<<<static_cast<unsigned>(blocks), kBlockThreads, static_cast<std::size_t>(shared), stream_of(stream)>>>(
        dx, accumulate_dx, partial, dy, x, w, mean, rstd, s);
    check_launch("norm_backward");
    if (sums) {
      combine_partials(stream, columns.dw_C, columns.accumulate_dw, columns.db_C, columns.accumulate_db, partial,
                       blocks, C);
    }
    done = true;
  });
  return done;
}

}  // namespace lt::kernels
