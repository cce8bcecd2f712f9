// Softmax and cross-entropy on the GPU, one block per row. The largest element is subtracted before the exponential.
// The search for it may miss a NaN in the row, but the exponentials bring it back.
#include "kernels/loss.h"

#include <cuda_pipeline.h>

#include <limits>

#include "kernels/cuda/bad_id.cuh"
#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

constexpr int kRowThreads = 512;  // per row of logits

template <class A>
__device__ constexpr A kLeast = -std::numeric_limits<A>::infinity();

__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

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
  for (Size c = threadIdx.x; c < C; c += blockDim.x) sum += exp_of(load(x[c]) - most);
  return block_sum(sum);
}

template <class T>
__global__ void softmax_forward_kernel(T* y_RC, const T* x_RC, Size C) {
  using A = Arithmetic<T>;
  const T* const x = x_RC + blockIdx.x * C;
  T* const y = y_RC + blockIdx.x * C;
  const A most = row_max(x, C), factor = A(1) / row_sum_exp(x, C, most);
  for (Size c = threadIdx.x; c < C; c += blockDim.x) y[c] = store<T>(exp_of(load(x[c]) - most) * factor);
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

// Writes a loss of 0 for a row whose target is outside, and records the target unless it may be ignored.
template <class A>
__device__ void skip_row(const CrossEntropyForward& k, Size m) {
  if (threadIdx.x > 0) return;
  static_cast<A*>(k.losses_M)[m] = static_cast<A*>(k.lse_M)[m] = 0;
  if (k.check.may_ignore && k.targets_M[m] == kIgnoredTarget) return;
  record_bad_id(k.check, m, k.targets_M[m]);
}

// Computes the loss of row m in one pass over its logits x, in which each thread keeps its largest element and the sum
// of exponentials relative to it. Returns the row's lse.
template <int kCount, bool kPlain, class T>
__device__ Arithmetic<T> row_loss(const CrossEntropyForward& k, Size m, const Pack<T, kCount>* x) {
  using A = Arithmetic<T>;
  const Size V = k.V;
  A *const losses = static_cast<A*>(k.losses_M), *const lse_M = static_cast<A*>(k.lse_M);
  A most = std::numeric_limits<A>::lowest(), sum = 0, total = 0;
  for (Size p = threadIdx.x; p < V / kCount; p += blockDim.x) {
    const auto pack = x[p];
    A largest = most;
#pragma unroll
    for (int i = 0; i < kCount; ++i) largest = load(pack.values[i]) > largest ? load(pack.values[i]) : largest;
    sum *= exp_of(most - largest);
    most = largest;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += exp_of(load(pack.values[i]) - most);
    if constexpr (!kPlain) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) total += load(pack.values[i]);
    }
  }
  const A of_row = block_max(most, std::numeric_limits<A>::lowest());
  const A lse = of_row + log(block_sum(sum * exp_of(most - of_row)));
  if constexpr (!kPlain) total = block_sum(total);
  if (threadIdx.x > 0) return lse;
  lse_M[m] = lse;
  losses[m] = lse - load(reinterpret_cast<const T*>(x)[k.targets_M[m]]);
  if constexpr (!kPlain) {
    // A logit of -infinity makes the mean over all classes infinite, which 0 does not take back.
    const A smoothing = static_cast<A>(k.terms.label_smoothing);
    const A of_all = smoothing == 0 ? losses[m] : lse - total / static_cast<A>(V);
    losses[m] += smoothing * (of_all - losses[m]) + static_cast<A>(k.terms.z_loss) * lse * lse;
  }
  return lse;
}

template <int kCount, class T>
__device__ Pack<T, kCount>* row_gradient_at(const CrossEntropyBackward& k, Size m) {
  return reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(k.dlogits_MV) + m * k.V);
}

// Writes a gradient of 0 for a row whose target is outside.
template <int kCount, class T>
__device__ void clear_row_gradient(const CrossEntropyBackward& k, Size m) {
  if (k.accumulate) return;
  Pack<T, kCount> zero;
#pragma unroll
  for (int i = 0; i < kCount; ++i) zero.values[i] = store<T>(Arithmetic<T>(0));
  for (Size p = threadIdx.x; p < k.V / kCount; p += blockDim.x) row_gradient_at<kCount, T>(k, m)[p] = zero;
}

// Computes the gradient of row m from its logits x.
template <int kCount, bool kPlain, class T>
__device__ void row_gradient(const CrossEntropyBackward& k, Size m, const Pack<T, kCount>* x, Arithmetic<T> lse) {
  using A = Arithmetic<T>;
  using P = Pack<T, kCount>;
  const Size V = k.V, target = k.targets_M[m];
  P* const dx = row_gradient_at<kCount, T>(k, m);
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
      const A probability = exp_of(load(pack.values[i]) - lse);
      const bool is_target = p * kCount + i == target;
      const A value = kPlain ? factor * (probability - (is_target ? A(1) : A(0)))
                             : of_p * probability - of_each - (is_target ? of_target : A(0));
      result.values[i] = store<T>(k.accumulate ? load(result.values[i]) + value : value);
    }
    dx[p] = result;
  }
}

template <int kCount, class T, class Pass>
__device__ const Pack<T, kCount>* row_logits(const Pass& k, Size m) {
  return reinterpret_cast<const Pack<T, kCount>*>(static_cast<const T*>(k.logits_MV) + m * k.V);
}

template <int kCount, bool kPlain, class T>
__global__ void cross_entropy_forward_kernel(const __grid_constant__ CrossEntropyForward k) {
  const Size m = blockIdx.x;
  if (!is_inside(k.targets_M[m], k.V)) return skip_row<Arithmetic<T>>(k, m);
  row_loss<kCount, kPlain, T>(k, m, row_logits<kCount, T>(k, m));
}

template <int kCount, bool kPlain, class T>
__global__ void cross_entropy_backward_kernel(const __grid_constant__ CrossEntropyBackward k) {
  const Size m = blockIdx.x;
  if (!is_inside(k.targets_M[m], k.V)) return clear_row_gradient<kCount, T>(k, m);
  row_gradient<kCount, kPlain, T>(k, m, row_logits<kCount, T>(k, m), static_cast<const Arithmetic<T>*>(k.lse_M)[m]);
}

// Both passes over a row in shared memory. A thread reads the packs that it copied itself, but for the target's.
template <bool kPlain, class T>
__global__ void __launch_bounds__(kRowThreads, 2)
    cross_entropy_in_place_kernel(const __grid_constant__ CrossEntropyForward loss,
                                  const __grid_constant__ CrossEntropyBackward gradient) {
  constexpr int kCount = kPack<T>;
  const Size m = blockIdx.x;
  if (!is_inside(loss.targets_M[m], loss.V)) {
    skip_row<Arithmetic<T>>(loss, m);
    return clear_row_gradient<kCount, T>(gradient, m);
  }
  extern __shared__ uint4 row_memory[];
  auto* const row = reinterpret_cast<Pack<T, kCount>*>(row_memory);
  const auto* const x = row_logits<kCount, T>(loss, m);
  for (Size p = threadIdx.x; p < loss.V / kCount; p += blockDim.x) __pipeline_memcpy_async(row + p, x + p, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  row_gradient<kCount, kPlain, T>(gradient, m, row, row_loss<kCount, kPlain, T>(loss, m, row));
}

// One block for each count.
__global__ void count_targets_kernel(float* counts_n, const std::int32_t* targets_nN, Size N) {
  const std::int32_t* const targets_N = targets_nN + blockIdx.x * N;
  double counted = 0;
  for (Size i = threadIdx.x; i < N; i += blockDim.x) counted += targets_N[i] != kIgnoredTarget;
  counted = block_sum(counted);
  if (threadIdx.x == 0) counts_n[blockIdx.x] = static_cast<float>(counted);
}

__global__ void target_weight_kernel(float* weight, const float* counts_n, Size n, double targets) {
  double counted = 0;
  for (Size i = threadIdx.x; i < n; i += blockDim.x) counted += static_cast<double>(counts_n[i]);
  counted = block_sum(counted);
  if (threadIdx.x == 0) *weight = counted > 0 ? static_cast<float>(targets / counted) : 0;
}

// The most bytes of dynamic shared memory with which two blocks fit a multiprocessor.
Size most_shared_bytes_of_two(CudaStream stream) {
  constexpr int kStaticAndSystem = 2 << 10;  // of each block
  int all = 0;
  LT_CUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, stream.device));
  return all / 2 - kStaticAndSystem;
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
void cross_entropy_in_place(CudaStream stream, const CrossEntropyForward& loss, const CrossEntropyBackward& gradient) {
  if (loss.M == 0) return;
  dispatch_float(loss.dtype, [&]<class T>() {
    const Size bytes = loss.V * static_cast<Size>(sizeof(T));
    const bool packs = loss.V % kPack<T> == 0 && aligned(static_cast<const T*>(loss.logits_MV));
    if (!packs || bytes > most_shared_bytes_of_two(stream)) {
      cross_entropy_forward(stream, loss);
      return cross_entropy_backward(stream, gradient);
    }
    dispatch_flag(loss.terms.none(), [&](auto plain) {
      constexpr auto kKernel = cross_entropy_in_place_kernel<plain.value, T>;
      LT_CUDA(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
      kKernel<<<static_cast<unsigned>(loss.M), kRowThreads, static_cast<std::size_t>(bytes), stream_of(stream)>>>(
          loss, gradient);
      check_launch("cross_entropy_in_place");
    });
  });
}

template <>
void count_targets(CudaStream stream, float* counts_n, Size n, const std::int32_t* targets_nN, Size N) {
  count_targets_kernel<<<static_cast<unsigned>(n), kRowThreads, 0, stream_of(stream)>>>(counts_n, targets_nN, N);
  check_launch("count_targets");
}

template <>
void target_weight(CudaStream stream, float* weight, const float* counts_n, Size n, double targets) {
  target_weight_kernel<<<1, kThreads, 0, stream_of(stream)>>>(weight, counts_n, n, targets);
  check_launch("target_weight");
}

}  // namespace lt::kernels
