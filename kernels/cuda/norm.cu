// LayerNorm and RMSNorm on the GPU. A team of threads has a row in its registers: a warp where rows are short, a block
// where they are longer; the longest rows, and those that are not aligned, are read again for each pass. Backward, a
// team goes from row to row and keeps the columns' sums for the gradients of the parameters.
#include "kernels/norm.h"

#include "kernels/cuda/columns.cuh"

namespace lt::kernels {
namespace {

constexpr int kBlockThreads = 128;         // of a block whose warps have a row each, and of unaligned rows
constexpr int kTeamThreads = 256;          // of a block that has a row
constexpr unsigned kBackwardBlocks = 264;  // fixed, because the order of sums depends on it
constexpr int kMostPacks = 4;              // of 16 bytes, in the registers of a thread

template <class A>
struct NormOptions {
  A eps;
  Size R, C;
};

// Where a team and its threads stand. kThreadsPerRow is a warp, or the whole block.
template <int kThreadsPerRow>
struct Team {
  static constexpr int kTeams = kThreadsPerRow == kWarp ? kBlockThreads / kWarp : 1;
  static constexpr int kBlock = kThreadsPerRow * kTeams;
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % kThreadsPerRow; }
  static __device__ int in_block() { return static_cast<int>(threadIdx.x) / kThreadsPerRow; }
  static __device__ Size first_row() { return static_cast<Size>(blockIdx.x) * kTeams + in_block(); }
  template <class A>
  static __device__ A sum(A x) {
    if constexpr (kThreadsPerRow == kWarp) {
      return warp_sum(x);
    } else {
      return block_sum(x);
    }
  }
};

// Pack k of a thread is the row's pack thread + k * kThreadsPerRow; beyond the row's end it is zero.
template <int kThreadsPerRow, int kPacks, class T>
struct RowPart {
  using P = Pack<T, kPack<T>>;
  P packs[kPacks];

  static __device__ int place(int k) { return Team<kThreadsPerRow>::thread() + k * kThreadsPerRow; }
  __device__ void read(const T* row_C, Size C) {
    const int count = static_cast<int>(C) / kPack<T>;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) packs[k] = place(k) < count ? reinterpret_cast<const P*>(row_C)[place(k)] : P{};
  }
  __device__ void write(T* row_C, Size C) const {
    const int count = static_cast<int>(C) / kPack<T>;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (place(k) < count) reinterpret_cast<P*>(row_C)[place(k)] = packs[k];
    }
  }
  __device__ bool holds(int k, Size C) const { return place(k) < static_cast<int>(C) / kPack<T>; }
  // f(element, its place in the pack's k-th, i-th), for those that the row has.
  template <class F>
  __device__ void for_each(Size C, F&& f) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (!holds(k, C)) continue;
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) f(packs[k].values[i], k, i);
    }
  }
};

template <bool kCentred, int kThreadsPerRow, int kPacks, class T>
__global__ void __launch_bounds__(Team<kThreadsPerRow>::kBlock)
    norm_forward_kernel(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC, const T* w_C,
                        const T* b_C, NormOptions<Arithmetic<T>> o) {
  using A = Arithmetic<T>;
  using Row = RowPart<kThreadsPerRow, kPacks, T>;
  const Size r = Team<kThreadsPerRow>::first_row();
  if (r >= o.R) return;
  Row x, w, b;
  x.read(x_RC + r * o.C, o.C);
  w.read(w_C, o.C);
  if (b_C) b.read(b_C, o.C);
  const A count = static_cast<A>(o.C);
  A sum = 0, squares = 0, mean = 0;
  if constexpr (kCentred) {
    x.for_each(o.C, [&](const T& value, int, int) { sum += load(value); });
    mean = Team<kThreadsPerRow>::sum(sum) / count;
  }
  x.for_each(o.C, [&](const T& value, int, int) {
    const A d = load(value) - mean;
    squares += d * d;
  });
  const A rstd = A(1) / sqrt(Team<kThreadsPerRow>::sum(squares) / count + o.eps);
  x.for_each(o.C, [&](T& value, int k, int i) {
    const A h = (load(value) - mean) * rstd * load(w.packs[k].values[i]);
    value = store<T>(b_C ? h + load(b.packs[k].values[i]) : h);
  });
  x.write(y_RC + r * o.C, o.C);
  if (Team<kThreadsPerRow>::thread() > 0) return;
  if (kCentred) mean_R[r] = mean;
  rstd_R[r] = rstd;
}

// With h = (x - mean) * rstd and g = dy * w: dx = rstd * (g - h * mean_C(g * h) - [centred] mean_C(g)).
// partial[block] = its rows' sums of dy * h, then those of dy.
template <bool kCentred, int kThreadsPerRow, int kPacks, class T>
__global__ void __launch_bounds__(Team<kThreadsPerRow>::kBlock)
    norm_backward_kernel(T* dx_RC, bool accumulate, Arithmetic<T>* partial, const T* dy_RC, const T* x_RC, const T* w_C,
                         const Arithmetic<T>* mean_R, const Arithmetic<T>* rstd_R, Size R, Size C) {
  using A = Arithmetic<T>;
  using Row = RowPart<kThreadsPerRow, kPacks, T>;
  constexpr int kOwn = kPacks * kPack<T>;
  Row w;
  w.read(w_C, C);
  A dw[kOwn] = {}, db[kOwn] = {};
  const Size stride = static_cast<Size>(gridDim.x) * Team<kThreadsPerRow>::kTeams;
  for (Size r = Team<kThreadsPerRow>::first_row(); r < R; r += stride) {
    Row x, dy, dx;
    x.read(x_RC + r * C, C);
    dy.read(dy_RC + r * C, C);
    if (dx_RC && accumulate) dx.read(dx_RC + r * C, C);
    const A mean = kCentred ? mean_R[r] : A(0), rstd = rstd_R[r];
    A sum_g = 0, sum_gh = 0;
    dy.for_each(C, [&](const T& value, int k, int i) {
      const A d = load(value), g = d * load(w.packs[k].values[i]), h = (load(x.packs[k].values[i]) - mean) * rstd;
      sum_g += g;
      sum_gh += g * h;
      dw[k * kPack<T> + i] += d * h;
      if (kCentred) db[k * kPack<T> + i] += d;
    });
    if (!dx_RC) continue;
    const A mean_g = kCentred ? Team<kThreadsPerRow>::sum(sum_g) / static_cast<A>(C) : A(0);
    const A mean_gh = Team<kThreadsPerRow>::sum(sum_gh) / static_cast<A>(C);
    dx.for_each(C, [&](T& result, int k, int i) {
      const A g = load(dy.packs[k].values[i]) * load(w.packs[k].values[i]);
      const A h = (load(x.packs[k].values[i]) - mean) * rstd, value = rstd * (g - mean_g - h * mean_gh);
      result = store<T>(accumulate ? load(result) + value : value);
    });
    dx.write(dx_RC + r * C, C);
  }
  if (!partial) return;
  A* const own = partial + static_cast<Size>(blockIdx.x) * 2 * C;
  extern __shared__ double shared[];
  A* const sums = reinterpret_cast<A*>(shared);  // [teams][C] where there are several
  for (int which = 0; which < (kCentred ? 2 : 1); ++which) {
    const A* const mine = which == 0 ? dw : db;
    A* const target = Team<kThreadsPerRow>::kTeams > 1 ? sums + Team<kThreadsPerRow>::in_block() * C : own + which * C;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (!w.holds(k, C)) continue;
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) target[Row::place(k) * kPack<T> + i] = mine[k * kPack<T> + i];
    }
    if constexpr (Team<kThreadsPerRow>::kTeams > 1) {
      __syncthreads();
      for (Size c = threadIdx.x; c < C; c += blockDim.x) {
        A sum = sums[c];
        for (int team = 1; team < Team<kThreadsPerRow>::kTeams; ++team) sum += sums[team * C + c];
        own[which * C + c] = sum;
      }
      __syncthreads();
    }
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

// Calls f(threads per row, packs of a thread) for rows that fit into registers, and returns whether they do.
template <class T, class F>
bool in_registers(Size C, F&& f) {
  if constexpr (std::is_same_v<T, double>) {  // of checks alone
    return false;
  } else {
    const auto with = [&](auto threads) {
      const Size packs = (C / kPack<T> + threads.value - 1) / threads.value;
      if (packs > kMostPacks) return false;
      if (packs == 1) {
        f(threads, std::integral_constant<int, 1>{});
      } else if (packs == 2) {
        f(threads, std::integral_constant<int, 2>{});
      } else {
        f(threads, std::integral_constant<int, kMostPacks>{});
      }
      return true;
    };
    if (C % kPack<T> != 0) return false;
    return with(std::integral_constant<int, kWarp>{}) || with(std::integral_constant<int, kTeamThreads>{});
  }
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
    const bool fits = aligned(y, x, w, b) && in_registers<T>(C, [&](auto threads, auto packs) {
                        using OfRow = Team<threads.value>;
                        const auto blocks = static_cast<unsigned>((R + OfRow::kTeams - 1) / OfRow::kTeams);
                        norm_forward_kernel<kCentred, threads.value, packs.value>
                            <<<blocks, OfRow::kBlock, 0, stream_of(stream)>>>(y, mean, rstd, x, w, b, options);
                      });
    if (!fits) {
      any_norm_forward_kernel<kCentred>
          <<<static_cast<unsigned>(R), kBlockThreads, 0, stream_of(stream)>>>(y, mean, rstd, x, w, b, options);
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
    const bool fits = R > 0 && aligned(dx, dy, x, w) && in_registers<T>(C, [&](auto threads, auto packs) {
                        using OfRow = Team<threads.value>;
                        const Size wanted = (R + OfRow::kTeams - 1) / OfRow::kTeams;
                        const auto blocks = static_cast<unsigned>(std::min<Size>(wanted, kBackwardBlocks));
                        const Size element = static_cast<Size>(sizeof(A));
                        A* const partial =
                            dw || db ? reinterpret_cast<A*>(cuda::scratch(stream, blocks * 2 * C * element)) : nullptr;
                        const Size shared = OfRow::kTeams > 1 ? OfRow::kTeams * C * element : 0;
                        norm_backward_kernel<kCentred, threads.value, packs.value>
                            <<<blocks, OfRow::kBlock, static_cast<std::size_t>(shared), stream_of(stream)>>>(
                                dx, accumulate_dx, partial, dy, x, w, mean, rstd, R, C);
                        check_launch("norm_backward");
                        if (dw) combine_partials(stream, dw, partial, blocks, 2 * C, C, accumulate_dw);
                        if (db) combine_partials(stream, db, partial + C, blocks, 2 * C, C, accumulate_db);
                      });
    if (fits) return;
    // dx last: it may stand where x or dy does.
    if (dw) sum_columns<A>(stream, dw, R, C, accumulate_dw, WeightTerm<T, kCentred>{dy, x, mean, rstd, C});
    if (db) sum_matrix_rows<A>(stream, db, dy, R, C, accumulate_db);
    if (dx && R > 0) {
      any_norm_dx_kernel<kCentred><<<static_cast<unsigned>(R), kBlockThreads, 0, stream_of(stream)>>>(
          dx, accumulate_dx, dy, x, w, mean, rstd, C);
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
