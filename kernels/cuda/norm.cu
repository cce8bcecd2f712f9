// LayerNorm and RMSNorm on the GPU. A block takes a few rows at a time: each thread has the same 16 bytes of every one
// of them in its registers, and the rows' sums go over the block together. Backward, a block goes from rows to rows and
// keeps the columns' sums for the gradients of the parameters. Rows that are too long for a block's threads, or not
// aligned, are read again for each pass.
#include "kernels/norm.h"

#include "kernels/cuda/columns.cuh"

namespace lt::kernels {
namespace {

constexpr int kAnyThreads = 128;  // of a block that reads a row again
constexpr int kMostThreads = 1024;
// Of a block that takes kManyRows rows at a time, which keep enough loads on their way; larger ones take kFewRows.
constexpr int kManyThreads = 256, kManyRows = 4, kFewRows = 2;
// The backward's blocks, by those that run at a time on one of 132 multiprocessors: fixed, because the order of sums
// depends on it.
constexpr int kBackwardUnits = 132, kMostBlocksOfUnit = 8;

template <class A>
struct NormOptions {
  A eps;
  Size R, C;
};

// sums[i] = that of x[i] over the block, in every thread, in a fixed order. `parts` is shared memory that the call
// before did not use.
template <int kCount, class A>
__device__ void block_sums(A (&x)[kCount], A (*parts)[kWarp]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = warp_sum(x[i]);
  if (warps == 1) return;
  if (lane < kCount) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (lane == i) parts[i][warp] = x[i];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = warp_sum(lane < warps ? parts[i][lane] : A(0));
}

// The 16 bytes that a thread has of each of kRows rows; beyond the last row, and beyond a row's end, they are zero.
template <int kRows, class T>
struct RowPacks {
  using P = Pack<T, kPack<T>>;
  P of[kRows];

  __device__ void read(const T* x_RC, Size first, Size R, Size C) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) of[i] = holds(first + i, R, C) ? *place(x_RC, first + i, C) : P{};
  }
  __device__ void write(T* x_RC, Size first, Size R, Size C) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (holds(first + i, R, C)) *const_cast<P*>(place(x_RC, first + i, C)) = of[i];
    }
  }
  static __device__ bool holds(Size r, Size R, Size C) {
    return r < R && static_cast<Size>(threadIdx.x) < C / kPack<T>;
  }
  static __device__ const P* place(const T* x_RC, Size r, Size C) {
    return reinterpret_cast<const P*>(x_RC + r * C) + threadIdx.x;
  }
};

template <bool kCentred, int kRows, class T>
__global__ void __launch_bounds__(kRows == kManyRows ? kManyThreads : kMostThreads)
    norm_forward_kernel(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC, const T* w_C,
                        const T* b_C, NormOptions<Arithmetic<T>> o) {
  using A = Arithmetic<T>;
  __shared__ A parts[2][kRows][kWarp];
  const Size first = static_cast<Size>(blockIdx.x) * kRows;
  RowPacks<kRows, T> x;
  RowPacks<1, T> w, b{};
  x.read(x_RC, first, o.R, o.C);
  w.read(w_C, 0, 1, o.C);
  if (b_C) b.read(b_C, 0, 1, o.C);
  const bool inside = RowPacks<1, T>::holds(0, 1, o.C);
  const A count = static_cast<A>(o.C);
  A mean[kRows] = {}, rstd[kRows] = {};
  if constexpr (kCentred) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) mean[i] += load(x.of[i].values[k]);
    }
    block_sums(mean, parts[0]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    mean[i] /= count;
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      const A d = inside ? load(x.of[i].values[k]) - mean[i] : A(0);
      rstd[i] += d * d;
    }
  }
  block_sums(rstd, parts[1]);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    rstd[i] = A(1) / sqrt(rstd[i] / count + o.eps);
#pragma unroll
    for (int k = 0; k < kPack<T>; ++k) {
      const A h = (load(x.of[i].values[k]) - mean[i]) * rstd[i] * load(w.of[0].values[k]);
      x.of[i].values[k] = store<T>(b_C ? h + load(b.of[0].values[k]) : h);
    }
    if (threadIdx.x > 0 || first + i >= o.R) continue;
    if (kCentred) mean_R[first + i] = mean[i];
    rstd_R[first + i] = rstd[i];
  }
  x.write(y_RC, first, o.R, o.C);
}

// With h = (x - mean) * rstd and g = dy * w: dx = rstd * (g - h * mean_C(g * h) - [centred] mean_C(g)).
// partial[block] = its rows' sums of dy * h, then those of dy.
template <bool kCentred, int kRows, class T>
__global__ void __launch_bounds__(kRows == kManyRows ? kManyThreads : kMostThreads)
    norm_backward_kernel(T* dx_RC, bool accumulate, Arithmetic<T>* partial, const T* dy_RC, const T* x_RC, const T* w_C,
                         const Arithmetic<T>* mean_R, const Arithmetic<T>* rstd_R, Size R, Size C) {
  using A = Arithmetic<T>;
  constexpr int kSums = kCentred ? 2 : 1;
  __shared__ A parts[2][kSums * kRows][kWarp];
  RowPacks<1, T> w;
  w.read(w_C, 0, 1, C);
  A dw[kPack<T>] = {}, db[kPack<T>] = {};
  int turn = 0;
  for (Size first = static_cast<Size>(blockIdx.x) * kRows; first < R; first += static_cast<Size>(gridDim.x) * kRows) {
    RowPacks<kRows, T> x, dy, dx{};
    x.read(x_RC, first, R, C);
    dy.read(dy_RC, first, R, C);
    if (dx_RC && accumulate) dx.read(dx_RC, first, R, C);
    A mean[kRows], rstd[kRows], sums[kSums * kRows] = {};  // of g * h, then of g
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Size r = first + i < R ? first + i : first;
      mean[i] = kCentred ? mean_R[r] : A(0), rstd[i] = rstd_R[r];
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) {
        const A d = load(dy.of[i].values[k]), g = d * load(w.of[0].values[k]);
        const A h = (load(x.of[i].values[k]) - mean[i]) * rstd[i];
        sums[i] += g * h;
        dw[k] += d * h;
        if constexpr (kCentred) sums[kRows + i] += g, db[k] += d;
      }
    }
    if (!dx_RC) continue;
    block_sums(sums, parts[turn]);
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const A mean_gh = sums[i] / static_cast<A>(C);
      const A mean_g = kCentred ? sums[(kSums - 1) * kRows + i] / static_cast<A>(C) : A(0);
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) {
        const A g = load(dy.of[i].values[k]) * load(w.of[0].values[k]);
        const A h = (load(x.of[i].values[k]) - mean[i]) * rstd[i], value = rstd[i] * (g - mean_g - h * mean_gh);
        dx.of[i].values[k] = store<T>(accumulate ? load(dx.of[i].values[k]) + value : value);
      }
    }
    dx.write(dx_RC, first, R, C);
  }
  if (!partial || !RowPacks<1, T>::holds(0, 1, C)) return;
  A* const own = partial + static_cast<Size>(blockIdx.x) * 2 * C + static_cast<Size>(threadIdx.x) * kPack<T>;
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    own[k] = dw[k];
    if (kCentred) own[C + k] = db[k];
  }
}

// Rows of any length and alignment, a block each.
template <bool kCentred, class T>
__global__ void any_norm_forward_kernel(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC,
                                        const T* w_C, const T* b_C, NormOptions<Arithmetic<T>> o) {
  using A = Arithmetic<T>;
  const Size r = blockIdx.x;
  const T* const x = x_RC + r * o.C;
  A sum = 0, squares = 0, mean = 0;
  if constexpr (kCentred) {
    for (Size c = threadIdx.x; c < o.C; c += blockDim.x) sum += load(x[c]);
    mean = block_sum(sum) / static_cast<A>(o.C);
  }
  for (Size c = threadIdx.x; c < o.C; c += blockDim.x) {
    const A d = load(x[c]) - mean;
    squares += d * d;
  }
  const A rstd = A(1) / sqrt(block_sum(squares) / static_cast<A>(o.C) + o.eps);
  for (Size c = threadIdx.x; c < o.C; c += blockDim.x) {
    const A h = (load(x[c]) - mean) * rstd * load(w_C[c]);
    y_RC[r * o.C + c] = store<T>(b_C ? h + load(b_C[c]) : h);
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

// Calls f(rows at a time, threads of a block) for rows that fit into the registers of a block, and returns whether they
// do.
template <class T, class F>
bool in_registers(Size C, F&& f) {
  if constexpr (std::is_same_v<T, double>) {  // of checks alone
    return false;
  } else {
    const Size threads = (C / kPack<T> + kWarp - 1) / kWarp * kWarp;
    if (C % kPack<T> != 0 || threads > kMostThreads) return false;
    if (threads <= kManyThreads) {
      f(std::integral_constant<int, kManyRows>{}, static_cast<int>(threads));
    } else {
      f(std::integral_constant<int, kFewRows>{}, static_cast<int>(threads));
    }
    return true;
  }
}

// Of the backward, which takes `rows` of R at a time.
unsigned backward_blocks(Size R, int rows, int threads) {
  const int together = (rows == kManyRows ? 3 * kManyThreads : kMostThreads) / threads;
  return static_cast<unsigned>(
      std::min<Size>((R + rows - 1) / rows, kBackwardUnits * std::clamp(together, 1, kMostBlocksOfUnit)));
}

template <bool kCentred>
void norm_forward(CudaStream stream, DType dtype, void* y_RC, void* mean_R, void* rstd_R, const void* x_RC,
                  const void* w_C, const void* b_C, Size R, Size C, float eps) {
  if (R == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    T* const y = static_cast<T*>(y_RC);
    const T *const x = static_cast<const T*>(x_RC), *const w = static_cast<const T*>(w_C),
                   *const b = static_cast<const T*>(b_C);
    A *const mean = static_cast<A*>(mean_R), *const rstd = static_cast<A*>(rstd_R);
    const NormOptions<A> options{static_cast<A>(eps), R, C};
    const bool fits =
        aligned(y, x, w, b) && in_registers<T>(C, [&](auto rows, int threads) {
          norm_forward_kernel<kCentred, rows.value>
              <<<static_cast<unsigned>((R + rows.value - 1) / rows.value), threads, 0, stream_of(stream)>>>(
                  y, mean, rstd, x, w, b, options);
        });
    if (!fits) {
      any_norm_forward_kernel<kCentred>
          <<<static_cast<unsigned>(R), kAnyThreads, 0, stream_of(stream)>>>(y, mean, rstd, x, w, b, options);
    }
  });
  check_launch("norm_forward");
}

template <bool kCentred>
void norm_backward(CudaStream stream, DType dtype, void* dx_RC, bool accumulate_dx, void* dw_C, bool accumulate_dw,
                   void* db_C, bool accumulate_db, const void* dy_RC, const void* x_RC, const void* w_C,
                   const void* mean_R, const void* rstd_R, Size R, Size C) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const T *const dy = static_cast<const T*>(dy_RC), *const x = static_cast<const T*>(x_RC),
                   *const w = static_cast<const T*>(w_C);
    T* const dx = static_cast<T*>(dx_RC);
    A *const dw = static_cast<A*>(dw_C), *const db = static_cast<A*>(db_C);
    const A *const mean = static_cast<const A*>(mean_R), *const rstd = static_cast<const A*>(rstd_R);
    const bool fits =
        R > 0 && aligned(dx, dy, x, w) && in_registers<T>(C, [&](auto rows, int threads) {
          const unsigned blocks = backward_blocks(R, rows.value, threads);
          A* const partial =
              dw || db ? reinterpret_cast<A*>(cuda::scratch(stream, blocks * 2 * C * static_cast<Size>(sizeof(A))))
                       : nullptr;
          norm_backward_kernel<kCentred, rows.value>
              <<<blocks, threads, 0, stream_of(stream)>>>(dx, accumulate_dx, partial, dy, x, w, mean, rstd, R, C);
          check_launch("norm_backward");
          if (dw) combine_partials(stream, dw, partial, blocks, 2 * C, C, accumulate_dw);
          if (db) combine_partials(stream, db, partial + C, blocks, 2 * C, C, accumulate_db);
        });
    if (fits) return;
    // dx last: it may stand where x or dy does.
    if (dw) sum_columns<A>(stream, dw, R, C, accumulate_dw, WeightTerm<T, kCentred>{dy, x, mean, rstd, C});
    if (db) sum_matrix_rows<A>(stream, db, dy, R, C, accumulate_db);
    if (dx && R > 0) {
      any_norm_dx_kernel<kCentred>
          <<<static_cast<unsigned>(R), kAnyThreads, 0, stream_of(stream)>>>(dx, accumulate_dx, dy, x, w, mean, rstd, C);
      check_launch("norm_dx");
    }
  });
}

}  // namespace

template <>
void layer_norm_forward(CudaStream stream, DType dtype, void* y_RC, void* mean_R, void* rstd_R, const void* x_RC,
                        const void* w_C, const void* b_C, Size R, Size C, float eps) {
  norm_forward<true>(stream, dtype, y_RC, mean_R, rstd_R, x_RC, w_C, b_C, R, C, eps);
}

template <>
void layer_norm_backward(CudaStream stream, DType dtype, void* dx_RC, bool accumulate_dx, void* dw_C,
                         bool accumulate_dw, void* db_C, bool accumulate_db, const void* dy_RC, const void* x_RC,
                         const void* w_C, const void* mean_R, const void* rstd_R, Size R, Size C) {
  norm_backward<true>(stream, dtype, dx_RC, accumulate_dx, dw_C, accumulate_dw, db_C, accumulate_db, dy_RC, x_RC, w_C,
                      mean_R, rstd_R, R, C);
}

template <>
void rms_norm_forward(CudaStream stream, DType dtype, void* y_RC, void* rstd_R, const void* x_RC, const void* w_C,
                      Size R, Size C, float eps) {
  norm_forward<false>(stream, dtype, y_RC, nullptr, rstd_R, x_RC, w_C, nullptr, R, C, eps);
}

template <>
void rms_norm_backward(CudaStream stream, DType dtype, void* dx_RC, bool accumulate_dx, void* dw_C, bool accumulate_dw,
                       const void* dy_RC, const void* x_RC, const void* w_C, const void* rstd_R, Size R, Size C) {
  norm_backward<false>(stream, dtype, dx_RC, accumulate_dx, dw_C, accumulate_dw, nullptr, false, dy_RC, x_RC, w_C,
                       nullptr, rstd_R, R, C);
}

}  // namespace lt::kernels
