// LayerNorm and RMSNorm on the GPU. A block takes a few rows at a time and goes on from rows to rows: each thread has
// the same 16 bytes of every one of them in its registers, the next rows are on their way meanwhile, and the rows' sums
// go over the block together. Backward, the threads keep the columns' sums for the gradients of the parameters. Rows
// that are too long for a block's threads, or not aligned, are read again for each pass.
#include "kernels/norm.h"

#include <limits>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/row_parts.cuh"

namespace lt::kernels {
namespace {

constexpr int kAnyThreads = 128;   // of a block that reads a row again
constexpr int kMostThreads = 512;  // of one with rows in its registers
// Rows that such a block takes at a time, and registers of a thread: few enough that other threads work while some
// wait.
constexpr int kForwardRows = 4, kForwardRegisters = 80;
template <bool kCentred>
inline constexpr int kBackwardRows = kCentred ? 1 : 2;
template <bool kCentred>
inline constexpr int kBackwardRegisters = kCentred ? 64 : 80;
// Threads that run at a time on a multiprocessor, each quarter of which has 16384 registers.
constexpr int together(int registers) { return 4 * (16384 / (registers * kWarp)) * kWarp; }
// The backward's blocks are those of so many multiprocessors: fixed, because the order of sums depends on it.
constexpr int kBackwardUnits = 132;

template <bool kCentred, class T>
__global__ void __maxnreg__(kForwardRegisters) norm_forward_kernel(T* y_RC, float* mean_R, float* rstd_R, const T* x_RC,
                                                                   const T* w_C, const T* b_C, RowPacks s, float eps) {
  constexpr int kRows = kForwardRows;
  __shared__ alignas(16) float parts[2][kWarp][kRows];
  RowParts<1, T> w, b{};
  w.read(w_C, 0, {1, s.packs});
  if (b_C) b.read(b_C, 0, {1, s.packs});
  const bool inside = static_cast<int>(threadIdx.x) < s.packs;
  const float count = static_cast<float>(s.packs * kPack<T>);
  const int step = static_cast<int>(gridDim.x) * kRows;
  RowParts<kRows, T> next;
  int first = static_cast<int>(blockIdx.x) * kRows;
  next.read(x_RC, first, s);
  for (int turn = 0; first < s.R; first += step) {
    RowParts<kRows, T> x = next;
    next.read(x_RC, first + step, s);
    float mean[kRows] = {}, rstd[kRows] = {};
    if constexpr (kCentred) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < kPack<T>; ++k) mean[i] += x.of[i][k];
      }
      block_sums(mean, parts[turn]);
      turn ^= 1;
      x.stay_packed();
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      mean[i] /= count;
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) {
        const float d = inside ? x.of[i][k] - mean[i] : 0.0f;
        rstd[i] += d * d;
      }
    }
    block_sums(rstd, parts[turn]);
    turn ^= 1;
    x.stay_packed(), w.stay_packed(), b.stay_packed();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      rstd[i] = 1.0f / sqrtf(rstd[i] / count + eps);
      const Packed<T> row = x.of[i];
      const float shift = -mean[i] * rstd[i];
      x.of[i].fill([&](int k) {
        const float h = kCentred ? fmaf(row[k], rstd[i], shift) : row[k] * rstd[i];
        return b_C ? fmaf(h, w.of[0][k], b.of[0][k]) : h * w.of[0][k];
      });
      if (threadIdx.x > 0 || first + i >= s.R) continue;
      if (kCentred) mean_R[first + i] = mean[i];
      rstd_R[first + i] = rstd[i];
    }
    x.write(y_RC, first, s);
  }
}

// With h = (x - mean) * rstd and g = dy * w: dx = rstd * (g - h * mean_C(g * h) - [centred] mean_C(g)).
// partial[block] = its rows' sums of dy * h, then those of dy.
template <bool kCentred, class T>
__global__ void __maxnreg__(kBackwardRegisters<kCentred>)
    norm_backward_kernel(T* dx_RC, bool accumulate, float* partial, const T* dy_RC, const T* x_RC, const T* w_C,
                         const float* mean_R, const float* rstd_R, RowPacks s) {
  constexpr int kRows = kBackwardRows<kCentred>, kSums = (kCentred ? 2 : 1) * kRows;
  __shared__ alignas(16) float parts[2][kWarp][kSums];
  RowParts<1, T> w;
  w.read(w_C, 0, {1, s.packs});
  float dw[kPack<T>] = {}, db[kPack<T>] = {};
  const float of_count = 1.0f / static_cast<float>(s.packs * kPack<T>);
  const int step = static_cast<int>(gridDim.x) * kRows;
  int first = static_cast<int>(blockIdx.x) * kRows;
  RowParts<kRows, T> next_x, next_dy;
  float next_mean[kRows], next_rstd[kRows];
  const auto read = [&](int begin) {
    next_x.read(x_RC, begin, s), next_dy.read(dy_RC, begin, s);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int r = begin + i < s.R ? begin + i : 0;
      next_mean[i] = kCentred ? mean_R[r] : 0.0f, next_rstd[i] = rstd_R[r];
    }
  };
  read(first);
  for (int turn = 0; first < s.R; first += step, turn ^= 1) {
    RowParts<kRows, T> x = next_x, dy = next_dy;
    float mean[kRows], rstd[kRows], sums[kSums] = {};  // of g * h, then of g
#pragma unroll
    for (int i = 0; i < kRows; ++i) mean[i] = next_mean[i], rstd[i] = next_rstd[i];
    read(first + step);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float shift = -mean[i] * rstd[i];
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) {
        const float d = dy.of[i][k], g = d * w.of[0][k];
        const float h = kCentred ? fmaf(x.of[i][k], rstd[i], shift) : x.of[i][k] * rstd[i];
        sums[i] = fmaf(g, h, sums[i]);
        dw[k] = fmaf(d, h, dw[k]);
        if constexpr (kCentred) sums[kRows + i] += g, db[k] += d;
      }
    }
    if (!dx_RC) continue;
    block_sums(sums, parts[turn]);
    x.stay_packed(), dy.stay_packed(), w.stay_packed();
    RowParts<kRows, T> dx{};
    if (accumulate) dx.read(dx_RC, first, s);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      // rstd * (g - mean_g) - h * rstd * mean_gh, with h a multiple of x and a shift.
      const float mean_gh = sums[i] * of_count, mean_g = kCentred ? sums[kSums - kRows + i] * of_count : 0.0f;
      const float factor = -rstd[i] * rstd[i] * mean_gh, shift = -mean[i] * factor - rstd[i] * mean_g;
      const Packed<T> before = dx.of[i];
      dx.of[i].fill([&](int k) {
        const float rest = kCentred ? fmaf(x.of[i][k], factor, shift) : x.of[i][k] * factor;
        const float value = fmaf(dy.of[i][k] * w.of[0][k], rstd[i], rest);
        return accumulate ? before[k] + value : value;
      });
    }
    dx.write(dx_RC, first, s);
  }
  if (!partial || static_cast<int>(threadIdx.x) >= s.packs) return;
  const int C = s.packs * kPack<T>;
  float* const own = partial + static_cast<Size>(blockIdx.x) * 2 * C + static_cast<int>(threadIdx.x) * kPack<T>;
#pragma unroll
  for (int k = 0; k < kPack<T>; ++k) {
    own[k] = dw[k];
    if (kCentred) own[C + k] = db[k];
  }
}

// Rows of any length and alignment, a block each.
template <bool kCentred, class T>
__global__ void any_norm_forward_kernel(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC,
                                        const T* w_C, const T* b_C, Arithmetic<T> eps, Size C) {
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

template <class T>
RowPacks row_packs(Size R, Size C) {
  return {static_cast<int>(R), static_cast<int>(C / kPack<T>)};
}

// Of a block that has rows in its registers; 0 where they do not fit.
template <class T>
int row_threads(Size R, Size C) {
  if (std::is_same_v<T, double> || C % kPack<T> != 0) return 0;  // f64 is for checks alone
  const Size packs = C / kPack<T>, threads = (packs + kWarp - 1) / kWarp * kWarp;
  return threads <= kMostThreads && R * packs < std::numeric_limits<int>::max() / 2 ? static_cast<int>(threads) : 0;
}

// That run at a time on `units` multiprocessors, but no more than there are rows.
unsigned blocks_of_rows(Size R, int rows, int threads, int registers, int units) {
  return static_cast<unsigned>(std::min<Size>((R + rows - 1) / rows, units * (together(registers) / threads)));
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
    const int threads = aligned(y, x, w, b) ? row_threads<T>(R, C) : 0;
    if constexpr (!std::is_same_v<T, double>) {
      if (threads > 0) {
        const unsigned blocks = blocks_of_rows(R, kForwardRows, threads, kForwardRegisters, multiprocessors(stream));
        norm_forward_kernel<kCentred>
            <<<blocks, threads, 0, stream_of(stream)>>>(y, mean, rstd, x, w, b, row_packs<T>(R, C), eps);
        return;
      }
    }
    any_norm_forward_kernel<kCentred><<<static_cast<unsigned>(R), kAnyThreads, 0, stream_of(stream)>>>(
        y, mean, rstd, x, w, b, static_cast<A>(eps), C);
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
    const int threads = R > 0 && aligned(dx, dy, x, w) ? row_threads<T>(R, C) : 0;
    if constexpr (!std::is_same_v<T, double>) {
      if (threads > 0) {
        const unsigned blocks =
            blocks_of_rows(R, kBackwardRows<kCentred>, threads, kBackwardRegisters<kCentred>, kBackwardUnits);
        const Size partial_bytes = blocks * 2 * C * static_cast<Size>(sizeof(A));
        A* const partial = dw || db ? reinterpret_cast<A*>(cuda::scratch(stream, partial_bytes)) : nullptr;
        norm_backward_kernel<kCentred><<<blocks, threads, 0, stream_of(stream)>>>(dx, accumulate_dx, partial, dy, x, w,
                                                                                  mean, rstd, row_packs<T>(R, C));
        check_launch("norm_backward");
        if (dw || db) combine_partials(stream, dw, accumulate_dw, db, accumulate_db, partial, blocks, C);
        return;
      }
    }
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
