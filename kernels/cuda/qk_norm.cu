// QK-norm on the GPU. One warp per head of each row; a lane takes channels lane, lane + 32, ...
#include "kernels/qk_norm.h"

#include "kernels/cuda/columns.cuh"

namespace lt::kernels {
namespace {

constexpr Size kNormWarps = kThreads / kWarp;

template <class T>
struct Heads {
  QkNormShape shape;
  const T *wq_D, *wk_D;

  // Warp i of the grid has head(i) of row(i).
  __device__ Size row(Size i) const { return i / (shape.H + 2 * shape.G); }
  __device__ Size head(Size i) const { return i % (shape.H + 2 * shape.G); }
  __device__ const T* weight(Size head) const { return head < shape.H ? wq_D : wk_D; }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    qk_norm_forward_kernel(T* y, Arithmetic<T>* rstd, const T* x, Heads<T> heads, Arithmetic<T> eps) {
  using A = Arithmetic<T>;
  const QkNormShape& s = heads.shape;
  const Size warp = thread_index() / kWarp, r = heads.row(warp), n = heads.head(warp), at = r * s.row() + n * s.D;
  if (r >= s.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (n >= s.heads()) {
    for (Size d = lane; d < s.D; d += kWarp) y[at + d] = x[at + d];
    return;
  }
  A squares = 0;
  for (Size d = lane; d < s.D; d += kWarp) squares += load(x[at + d]) * load(x[at + d]);
  const A factor = A(1) / sqrt(warp_sum(squares) / static_cast<A>(s.D) + eps);
  const T* const w = heads.weight(n);
  for (Size d = lane; d < s.D; d += kWarp) y[at + d] = store<T>(load(x[at + d]) * factor * load(w[d]));
  if (lane == 0) rstd[r * s.heads() + n] = factor;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    qk_norm_dx_kernel(T* dx, const T* dy, const T* x, const Arithmetic<T>* rstd, Heads<T> heads) {
  using A = Arithmetic<T>;
  const QkNormShape& s = heads.shape;
  const Size warp = thread_index() / kWarp, r = heads.row(warp), n = heads.head(warp), at = r * s.row() + n * s.D;
  if (r >= s.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (n >= s.heads()) {
    for (Size d = lane; d < s.D && dx != dy; d += kWarp) dx[at + d] = dy[at + d];
    return;
  }
  const T* const w = heads.weight(n);
  const A factor = rstd[r * s.heads() + n];
  A sum = 0;
  for (Size d = lane; d < s.D; d += kWarp) sum += load(dy[at + d]) * load(w[d]) * (load(x[at + d]) * factor);
  const A mean = warp_sum(sum) / static_cast<A>(s.D);
  for (Size d = lane; d < s.D; d += kWarp) {
    const A h = load(x[at + d]) * factor;
    dx[at + d] = store<T>(factor * (load(dy[at + d]) * load(w[d]) - h * mean));
  }
}

// The term that channel d of head `first + i % count` of row i / count adds to its weight's gradient.
template <class T>
struct QkWeightTerm {
  const T *dy, *x;
  const Arithmetic<T>* rstd;
  QkNormShape s;
  Size first, count;

  __device__ Arithmetic<T> operator()(Size i, Size d) const {
    const Size r = i / count, n = first + i % count, at = r * s.row() + n * s.D + d;
    return load(dy[at]) * (load(x[at]) * rstd[r * s.heads() + n]);
  }
};

unsigned blocks_of(const QkNormShape& s) {
  return static_cast<unsigned>((s.rows * (s.H + 2 * s.G) + kNormWarps - 1) / kNormWarps);
}

}  // namespace

template <>
void qk_norm_forward(CudaStream stream, const QkNormForward& norm) {
  if (norm.shape.rows == 0) return;
  dispatch_float(norm.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const Heads<T> heads{norm.shape, static_cast<const T*>(norm.wq_D), static_cast<const T*>(norm.wk_D)};
    qk_norm_forward_kernel<<<blocks_of(norm.shape), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(norm.y), static_cast<A*>(norm.rstd), static_cast<const T*>(norm.x), heads,
        static_cast<A>(norm.eps));
  });
  check_launch("qk_norm_forward");
}

template <>
void qk_norm_backward(CudaStream stream, const QkNormBackward& norm) {
  dispatch_float(norm.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const QkNormShape& s = norm.shape;
    const T *const dy = static_cast<const T*>(norm.dy), *const x = static_cast<const T*>(norm.x);
    const A* const rstd = static_cast<const A*>(norm.rstd);
    // dx last: it may alias dy.
    if (norm.dwq_D) {
      sum_columns<A>(stream, static_cast<A*>(norm.dwq_D), s.rows * s.H, s.D, norm.accumulate_dwq,
                     QkWeightTerm<T>{dy, x, rstd, s, 0, s.H});
    }
    if (norm.dwk_D) {
      sum_columns<A>(stream, static_cast<A*>(norm.dwk_D), s.rows * s.G, s.D, norm.accumulate_dwk,
                     QkWeightTerm<T>{dy, x, rstd, s, s.H, s.G});
    }
    if (s.rows == 0) return;
    const Heads<T> heads{s, static_cast<const T*>(norm.wq_D), static_cast<const T*>(norm.wk_D)};
    qk_norm_dx_kernel<<<blocks_of(s), kThreads, 0, stream_of(stream)>>>(static_cast<T*>(norm.dx), dy, x, rstd, heads);
    check_launch("qk_norm_dx");
  });
}

}  // namespace lt::kernels
