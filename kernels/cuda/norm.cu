// LayerNorm and RMSNorm on the GPU. Rows of up to 8192 columns of two bytes, or 4096 of f32, pass through shared memory
// once. Longer rows, unaligned rows and f64 rows are read again for each pass.
#include "kernels/norm.h"

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/norm_staged.cuh"

namespace lt::kernels {
namespace {

constexpr int kAnyThreads = 128;  // of a block that reads a row more than once

// Rows of any length and alignment, one block per row.
template <bool kCentred, class T>
__global__ void any_norm_forward_kernel(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC,
                                        const T* w_C, const T* b_C, Arithmetic<T> eps, Size C) {
  let_next_kernel_start();
  using A = Arithmetic<T>;
  const Size r = blockIdx.x;
  const T* const x = x_RC + r * C;
  A sum = 0, squares = 0, mean = 0;
  if constexpr (kCentred) {
    for (Size c = threadIdx.x; c < C; c += blockDim.x) sum += load(x[c]);
    mean = block_sum(sum) / static_cast<A>(C);
  }
  for (Size c = threadIdx.x; c < C; c += blockDim.x) {
    const A d = load(x[c]) - mean;
    squares += d * d;
  }
  const A rstd = A(1) / sqrt(block_sum(squares) / static_cast<A>(C) + eps);
  for (Size c = threadIdx.x; c < C; c += blockDim.x) {
    const A h = (load(x[c]) - mean) * rstd * load(w_C[c]);
    y_RC[r * C + c] = store<T>(b_C ? h + load(b_C[c]) : h);
  }
  if (threadIdx.x > 0) return;
  if (kCentred) mean_R[r] = mean;
  rstd_R[r] = rstd;
}

template <bool kCentred, class T>
__global__ void any_norm_dx_kernel(T* dx_RC, bool accumulate, const T* dy_RC, const T* x_RC, const T* w_C,
                                   const Arithmetic<T>* mean_R, const Arithmetic<T>* rstd_R, Size C) {
  using A = Arithmetic<T>;
  const Size r = blockIdx.x;
  const T *const x = x_RC + r * C, *const dy = dy_RC + r * C;
  T* const dx = dx_RC + r * C;
  const A mean = kCentred ? mean_R[r] : A(0), rstd = rstd_R[r];
  A sum_g = 0, sum_gh = 0;
  for (Size c = threadIdx.x; c < C; c += blockDim.x) {
    const A g = load(dy[c]) * load(w_C[c]);
    sum_g += g;
    sum_gh += g * ((load(x[c]) - mean) * rstd);
  }
  const A mean_g = kCentred ? block_sum(sum_g) / static_cast<A>(C) : A(0);
  const A mean_gh = block_sum(sum_gh) / static_cast<A>(C);
  for (Size c = threadIdx.x; c < C; c += blockDim.x) {
    const A h = (load(x[c]) - mean) * rstd, value = rstd * (load(dy[c]) * load(w_C[c]) - mean_g - h * mean_gh);
    dx[c] = store<T>(accumulate ? load(dx[c]) + value : value);
  }
}

// dw_C = sum over rows of dy * h.
template <class T, bool kCentred>
struct WeightTerm {
  const T *dy_RC, *x_RC;
  const Arithmetic<T>*mean_R, *rstd_R;
  Size C;
  __device__ Arithmetic<T> operator()(Size r, Size c) const {
    const Arithmetic<T> centre = kCentred ? mean_R[r] : Arithmetic<T>(0);
    return load(dy_RC[r * C + c]) * ((load(x_RC[r * C + c]) - centre) * rstd_R[r]);
  }
};

// If not kCentred, mean_R, b_C and db_C are null.
template <bool kCentred>
void norm_forward(CudaStream stream, const LayerNormForward& n) {
  if (n.R == 0) return;
  dispatch_float(n.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    T* const y = static_cast<T*>(n.y_RC);
    const T *const x = static_cast<const T*>(n.x_RC), *const w = static_cast<const T*>(n.w_C),
                   *const b = static_cast<const T*>(n.b_C);
    A *const mean = static_cast<A*>(n.mean_R), *const rstd = static_cast<A*>(n.rstd_R);
    if constexpr (!std::is_same_v<T, double>) {
      const RowPacks s = row_packs<T>(n.R, n.C, y, x, w, b);
      if (s.packs > 0 && staged_norm_forward<kCentred>(stream, y, mean, rstd, x, w, b, s, n.eps)) return;
    }
    any_norm_forward_kernel<kCentred><<<static_cast<unsigned>(n.R), kAnyThreads, 0, stream_of(stream)>>>(
        y, mean, rstd, x, w, b, static_cast<A>(n.eps), n.C);
    check_launch("any_norm_forward");
  });
}

template <bool kCentred>
void norm_backward(CudaStream stream, const LayerNormBackward& n) {
  dispatch_float(n.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const Size R = n.R, C = n.C;
    const T *const dy = static_cast<const T*>(n.dy_RC), *const x = static_cast<const T*>(n.x_RC),
                   *const w = static_cast<const T*>(n.w_C);
    T* const dx = static_cast<T*>(n.dx_RC);
    A *const dw = static_cast<A*>(n.dw_C), *const db = static_cast<A*>(n.db_C);
    const A *const mean = static_cast<const A*>(n.mean_R), *const rstd = static_cast<const A*>(n.rstd_R);
    if constexpr (!std::is_same_v<T, double>) {
      const RowPacks s = row_packs<T>(R, C, dx, dy, x, w);
      const ColumnGradients columns{dw, n.accumulate_dw, db, n.accumulate_db};
      if (R > 0 && s.packs > 0 &&
          staged_norm_backward<kCentred>(stream, dx, n.accumulate_dx, columns, dy, x, w, mean, rstd, s)) {
        return;
      }
    }
    if (dw) sum_columns<A>(stream, dw, R, C, n.accumulate_dw, WeightTerm<T, kCentred>{dy, x, mean, rstd, C});
    if (db) sum_matrix_rows<A>(stream, db, dy, R, C, n.accumulate_db);
    if (dx && R > 0) {
      any_norm_dx_kernel<kCentred><<<static_cast<unsigned>(R), kAnyThreads, 0, stream_of(stream)>>>(
          dx, n.accumulate_dx, dy, x, w, mean, rstd, C);
      check_launch("norm_dx");
    }
  });
}

}  // namespace

template <>
void layer_norm_forward(CudaStream stream, const LayerNormForward& norm) {
  norm_forward<true>(stream, norm);
}

template <>
void layer_norm_backward(CudaStream stream, const LayerNormBackward& norm) {
  norm_backward<true>(stream, norm);
}

template <>
void rms_norm_forward(CudaStream stream, const RmsNormForward& n) {
  norm_forward<false>(stream, {n.dtype, n.R, n.C, n.y_RC, nullptr, n.rstd_R, n.x_RC, n.w_C, nullptr, n.eps});
}

template <>
void rms_norm_backward(CudaStream stream, const RmsNormBackward& n) {
  norm_backward<false>(stream, {n.dtype, n.R, n.C, n.dx_RC, n.dw_C, nullptr, n.accumulate_dx, n.accumulate_dw, false,
                                n.dy_RC, n.x_RC, n.w_C, nullptr, n.rstd_R});
}

}  // namespace lt::kernels
