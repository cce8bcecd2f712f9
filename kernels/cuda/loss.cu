// Softmax and cross-entropy on the GPU, one block per row. The largest element is subtracted before the exponential.
// The search for it may miss a NaN in the row, but the exponentials bring it back.
#include "kernels/loss.h"

#include <limits>

#include "kernels/cuda/bad_id.cuh"
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
template <int kCount, bool kPlain, class T>
__global__ void cross_entropy_forward_kernel(const __grid_constant__ CrossEntropyForward k) {
  using A = Arithmetic<T>;
  const Size m = blockIdx.x, V = k.V;
  A *const losses = static_cast<A*>(k.losses_M), *const lse_M = static_cast<A*>(k.lse_M);
  const std::int32_t target = k.targets_M[m];
  if (!is_inside(target, V)) {
    if (threadIdx.x > 0) return;
    losses[m] = lse_M[m] = 0;
    if (target != kIgnoredTarget) record_bad_id(k.check, m, target);
    return;
  }
  const T* const x = static_cast<const T*>(k.logits_MV) + m * V;
  A most = std::numeric_limits<A>::lowest(), sum = 0, total = 0;
  for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) {
    const auto pack = reinterpret_cast<const Pack<T, kCount>*>(x)[p];
    A largest = most;
#pragma unroll
    for (int i = 0; i < kCount; ++i) largest = load(pack.values[i]) > largest ? load(pack.values[i]) : largest;
    sum *= exponential(most - largest);
    most = largest;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += exponential(load(pack.values[i]) - most);
    if constexpr (!kPlain) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) total += load(pack.values[i]);
    }
  }
  const A of_row = block_max(most, std::numeric_limits<A>::lowest());
  const A lse = of_row + log(block_sum(sum * exponential(most - of_row)));
  if constexpr (!kPlain) total = block_sum(total);
  if (threadIdx.x > 0) return;
  lse_M[m] = lse;
  losses[m] = lse - load(x[target]);
  if constexpr (!kPlain) {
    const A of_all = lse - total / static_cast<A>(V);
    losses[m] +=
        static_cast<A>(k.terms.label_smoothing) * (of_all - losses[m]) + static_cast<A>(k.terms.z_loss) * lse * lse;
  }
}

template <int kCount, bool kPlain, class T>
__global__ void cross_entropy_backward_kernel(const __grid_constant__ CrossEntropyBackward k) {
  using A = Arithmetic<T>;
  using P = Pack<T, kCount>;
  const Size m = blockIdx.x, V = k.V, target = k.targets_M[m];
  const P* const x = reinterpret_cast<const P*>(static_cast<const T*>(k.logits_MV) + m * V);
  P* const dx = reinterpret_cast<P*>(static_cast<T*>(k.dlogits_MV) + m * V);
  if (!is_inside(target, V)) {
    if (k.accumulate) return;
    P zero;
#pragma unroll
    for (int i = 0; i < kCount; ++i) zero.values[i] = store<T>(A(0));
    for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) dx[p] = zero;
    return;
  }
  const A lse = static_cast<const A*>(k.lse_M)[m];
  const A scale = static_cast<A>(k.scale), of_loss = k.d_loss ? scale * *static_cast<const A*>(k.d_loss) : scale;
  const A factor = k.weight ? of_loss * static_cast<A>(*k.weight) : of_loss;
  const A of_p = factor * (A(1) + 2 * static_cast<A>(k.terms.z_loss) * lse);
  const A of_each = factor * static_cast<A>(k.terms.label_smoothing) / static_cast<A>(V);
  const A of_target = factor * (A(1) - static_cast<A>(k.terms.label_smoothing));
  for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) {
    const P pack = x[p];
    P result;
    if (k.accumulate) result = dx[p];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const A probability = exponential(load(pack.values[i]) - lse);
      const bool is_target = p * kCount + i == target;
      const A value = kPlain ? factor * (probability - (is_target ? A(1) : A(0)))
                             : of_p * probability - of_each - (is_target ? of_target : A(0));
      result.values[i] = store<T>(k.accumulate ? load(result.values[i]) + value : value);
    }
    dx[p] = result;
  }
}

__global__ void count_targets_kernel(float* count, const std::int32_t* targets_N, Size N) {
  double counted = 0;
  for (Size i = threadIdx.x; i < N; i += blockDim.x) counted += targets_N[i] != kIgnoredTarget;
  counted = block_sum(counted);
  if (threadIdx.x == 0) *count = static_cast<float>(counted);
}

__global__ void target_weight_kernel(float* weight, const float* counts_n, Size n, double targets) {
  double counted = 0;
  for (Size i = threadIdx.x; i < n; i += blockDim.x) counted += static_cast<double>(counts_n[i]);
  counted = block_sum(counted);
  if (threadIdx.x == 0) *weight = counted > 0 ? static_cast<float>(targets / counted) : 0;
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
void cross_entropy_forward(CudaStream stream, const CrossEntropyForward& k) {
  if (k.M == 0) return;
  dispatch_float(k.dtype, [&]<class T>() {
    dispatch_flag(k.V % kPack<T> == 0 && aligned(static_cast<const T*>(k.logits_MV)), [&](auto whole) {
      dispatch_flag(k.terms.none(), [&](auto plain) {
        cross_entropy_forward_kernel<whole.value ? kPack<T> : 1, plain.value, T>
            <<<static_cast<unsigned>(k.M), kRowThreads, 0, stream_of(stream)>>>(k);
      });
    });
  });
  check_launch("cross_entropy_forward");
}

template <>
void cross_entropy_backward(CudaStream stream, const CrossEntropyBackward& k) {
  if (k.M == 0) return;
  dispatch_float(k.dtype, [&]<class T>() {
    const bool packs =
        k.V % kPack<T> == 0 && aligned(static_cast<T*>(k.dlogits_MV), static_cast<const T*>(k.logits_MV));
    dispatch_flag(packs, [&](auto whole) {
      dispatch_flag(k.terms.none(), [&](auto plain) {
        cross_entropy_backward_kernel<whole.value ? kPack<T> : 1, plain.value, T>
            <<<static_cast<unsigned>(k.M), kRowThreads, 0, stream_of(stream)>>>(k);
      });
    });
  });
  check_launch("cross_entropy_backward");
}

template <>
void count_targets(CudaStream stream, float* count, const std::int32_t* targets_N, Size N) {
  count_targets_kernel<<<1, kRowThreads, 0, stream_of(stream)>>>(count, targets_N, N);
  check_launch("count_targets");
}

template <>
void target_weight(CudaStream stream, float* weight, const float* counts_n, Size n, double targets) {
  target_weight_kernel<<<1, kThreads, 0, stream_of(stream)>>>(weight, counts_n, n, targets);
  check_launch("target_weight");
}

}  // namespace lt::kernels
