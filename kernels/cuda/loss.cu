// Softmax and cross-entropy on the GPU: a block to a row. The largest element is subtracted before the exponential; a
// NaN in a row passes that search unseen and comes back through the exponentials.
#include "kernels/loss.h"

#include <limits>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

template <class A>
__device__ constexpr A kLeast = -std::numeric_limits<A>::infinity();

__device__ inline float exponential(float x) { return __expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

template <class T>
__device__ inline Arithmetic<T> row_max(const T* x, Size C) {
  using A = Arithmetic<T>;
  A most = kLeast<A>;
  for (Size c = threadIdx.x; c < C; c += blockDim.x) most = load(x[c]) > most ? load(x[c]) : most;
  return block_max(most, kLeast<A>);
}

template <class T>
__device__ inline Arithmetic<T> row_sum_exp(const T* x, Size C, Arithmetic<T> most) {
  Arithmetic<T> sum = 0;
  for (Size c = threadIdx.x; c < C; c += blockDim.x) sum += exponential(load(x[c]) - most);
  return block_sum(sum);
}

template <class T>
__global__ void softmax_forward_kernel(T* y_RC, const T* x_RC, Size C) {
  using A = Arithmetic<T>;
  const T* const x = x_RC + blockIdx.x * C;
  T* const y = y_RC + blockIdx.x * C;
  const A most = row_max(x, C), factor = A(1) / row_sum_exp(x, C, most);
  for (Size c = threadIdx.x; c < C; c += blockDim.x) y[c] = store<T>(exponential(load(x[c]) - most) * factor);
}

template <class T>
__global__ void softmax_backward_kernel(T* dx_RC, const T* dy_RC, const T* y_RC, Size C, bool accumulate) {
  using A = Arithmetic<T>;
  const T *const dy = dy_RC + blockIdx.x * C, *const y = y_RC + blockIdx.x * C;
  T* const dx = dx_RC + blockIdx.x * C;
  A product = 0;
  for (Size c = threadIdx.x; c < C; c += blockDim.x) product += load(dy[c]) * load(y[c]);
  const A dot = block_sum(product);
  for (Size c = threadIdx.x; c < C; c += blockDim.x) {
    const A value = load(y[c]) * (load(dy[c]) - dot);
    dx[c] = store<T>(accumulate ? load(dx[c]) + value : value);
  }
}

template <class T>
__global__ void cross_entropy_forward_kernel(Arithmetic<T>* losses_M, Arithmetic<T>* lse_M, const T* logits_MV,
                                             const std::int32_t* targets_M, Size V) {
  const Size m = blockIdx.x;
  const T* const x = logits_MV + m * V;
  const Arithmetic<T> most = row_max(x, V), lse = most + log(row_sum_exp(x, V, most));
  if (threadIdx.x > 0) return;
  lse_M[m] = lse;
  losses_M[m] = lse - load(x[targets_M[m]]);
}

template <class T>
__global__ void cross_entropy_backward_kernel(T* dlogits_MV, const T* logits_MV, const Arithmetic<T>* lse_M,
                                              const std::int32_t* targets_M, const Arithmetic<T>* d_loss,
                                              Arithmetic<T> scale, Size V, bool accumulate) {
  using A = Arithmetic<T>;
  const Size m = blockIdx.x, target = targets_M[m];
  const T* const x = logits_MV + m * V;
  T* const dx = dlogits_MV + m * V;
  const A lse = lse_M[m], factor = d_loss ? scale * *d_loss : scale;
  for (Size v = threadIdx.x; v < V; v += blockDim.x) {
    const A value = factor * (exponential(load(x[v]) - lse) - (v == target ? A(1) : A(0)));
    dx[v] = store<T>(accumulate ? load(dx[v]) + value : value);
  }
}

}  // namespace

template <>
void softmax_forward(CudaStream stream, DType dtype, void* y_RC, const void* x_RC, Size R, Size C) {
  if (R == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    softmax_forward_kernel<<<static_cast<unsigned>(R), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_RC), static_cast<const T*>(x_RC), C);
  });
  check_launch("softmax_forward");
}

template <>
void softmax_backward(CudaStream stream, DType dtype, void* dx_RC, const void* dy_RC, const void* y_RC, Size R, Size C,
                      bool accumulate) {
  if (R == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    softmax_backward_kernel<<<static_cast<unsigned>(R), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(dx_RC), static_cast<const T*>(dy_RC), static_cast<const T*>(y_RC), C, accumulate);
  });
  check_launch("softmax_backward");
}

template <>
void cross_entropy_forward(CudaStream stream, DType dtype, void* losses_M, void* lse_M, const void* logits_MV,
                           const std::int32_t* targets_M, Size M, Size V) {
  if (M == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    cross_entropy_forward_kernel<<<static_cast<unsigned>(M), kThreads, 0, stream_of(stream)>>>(
        static_cast<A*>(losses_M), static_cast<A*>(lse_M), static_cast<const T*>(logits_MV), targets_M, V);
  });
  check_launch("cross_entropy_forward");
}

template <>
void cross_entropy_backward(CudaStream stream, DType dtype, void* dlogits_MV, const void* logits_MV, const void* lse_M,
                            const std::int32_t* targets_M, const void* d_loss, double scale, Size M, Size V,
                            bool accumulate) {
  if (M == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    cross_entropy_backward_kernel<<<static_cast<unsigned>(M), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(dlogits_MV), static_cast<const T*>(logits_MV), static_cast<const A*>(lse_M), targets_M,
        static_cast<const A*>(d_loss), static_cast<A>(scale), V, accumulate);
  });
  check_launch("cross_entropy_backward");
}

}  // namespace lt::kernels
