// Softmax and cross-entropy on the GPU, one block per row. The largest element is subtracted before the exponential.
// The search for it may miss a NaN in the row, but the exponentials bring it back.
#include "kernels/loss.h"

#include <limits>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

constexpr int kRowThreads = 512;  // per row of logits

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

// One pass over the row: each thread keeps its largest element and the sum of exponentials relative to it.
template <int kCount, class T>
__global__ void cross_entropy_forward_kernel(Arithmetic<T>* losses_M, Arithmetic<T>* lse_M, const T* logits_MV,
                                             const std::int32_t* targets_M, Size V) {
  using A = Arithmetic<T>;
  const Size m = blockIdx.x;
  const T* const x = logits_MV + m * V;
  A most = std::numeric_limits<A>::lowest(), sum = 0;
  for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) {
    const auto pack = reinterpret_cast<const Pack<T, kCount>*>(x)[p];
    A largest = most;
#pragma unroll
    for (int k = 0; k < kCount; ++k) largest = load(pack.values[k]) > largest ? load(pack.values[k]) : largest;
    sum *= exponential(most - largest);
    most = largest;
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum += exponential(load(pack.values[k]) - most);
  }
  const A of_row = block_max(most, std::numeric_limits<A>::lowest());
  const A lse = of_row + log(block_sum(sum * exponential(most - of_row)));
  if (threadIdx.x > 0) return;
  lse_M[m] = lse;
  losses_M[m] = lse - load(x[targets_M[m]]);
}

template <int kCount, class T>
__global__ void cross_entropy_backward_kernel(T* dlogits_MV, const T* logits_MV, const Arithmetic<T>* lse_M,
                                              const std::int32_t* targets_M, const Arithmetic<T>* d_loss,
                                              Arithmetic<T> scale, Size V, bool accumulate) {
  using A = Arithmetic<T>;
  using P = Pack<T, kCount>;
  const Size m = blockIdx.x, target = targets_M[m];
  const P* const x = reinterpret_cast<const P*>(logits_MV + m * V);
  P* const dx = reinterpret_cast<P*>(dlogits_MV + m * V);
  const A lse = lse_M[m], factor = d_loss ? scale * *d_loss : scale;
  for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) {
    const P pack = x[p];
    P result;
    if (accumulate) result = dx[p];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const A value = factor * (exponential(load(pack.values[k]) - lse) - (p * kCount + k == target ? A(1) : A(0)));
      result.values[k] = store<T>(accumulate ? load(result.values[k]) + value : value);
    }
    dx[p] = result;
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
    const T* const logits = static_cast<const T*>(logits_MV);
    dispatch_flag(V % kPack<T> == 0 && aligned(logits), [&](auto whole) {
      cross_entropy_forward_kernel<whole.value ? kPack<T> : 1>
          <<<static_cast<unsigned>(M), kRowThreads, 0, stream_of(stream)>>>(
              static_cast<A*>(losses_M), static_cast<A*>(lse_M), logits, targets_M, V);
    });
  });
  check_launch("cross_entropy_forward");
}

template <>
void cross_entropy_backward(CudaStream stream, const CrossEntropyBackward& k) {
  if (k.M == 0) return;
  dispatch_float(k.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    T* const dlogits = static_cast<T*>(k.dlogits_MV);
    const T* const logits = static_cast<const T*>(k.logits_MV);
    dispatch_flag(k.V % kPack<T> == 0 && aligned(dlogits, logits), [&](auto whole) {
      cross_entropy_backward_kernel<whole.value ? kPack<T> : 1>
          <<<static_cast<unsigned>(k.M), kRowThreads, 0, stream_of(stream)>>>(
              dlogits, logits, static_cast<const A*>(k.lse_M), k.targets_M, static_cast<const A*>(k.d_loss),
              static_cast<A>(k.scale), k.V, k.accumulate);
    });
  });
  check_launch("cross_entropy_backward");
}

}  // namespace lt::kernels
