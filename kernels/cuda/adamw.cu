// AdamW on the GPU, one pass over memory.
#include "kernels/adamw.h"

#include "kernels/adamw_step.h"
#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

struct Rates {
  float beta1, beta2, eps, weight_decay;
};

__global__ void adamw_scalars_kernel(AdamWScalars* scalars, float* norm, const double* partials_n, Size n,
                                     const float* loss, float clip, const AdamWRates* rates, LossScaleState* scaling) {
  double sum = 0;
  for (Size i = 0; i < n; ++i) sum += partials_n[i];
  fill_scalars(scalars, norm, sqrt(sum), *loss, clip, *rates, scaling);
}

template <int kCount, class Copy>
__global__ void adamw_update_kernel(float* w_N, float* m_N, float* v_N, const float* gradient_N, Copy* copy_N, Size N,
                                    Size decayed, Rates rates, const AdamWScalars* scalars) {
  using P = Pack<float, kCount>;
  const AdamWScalars s = *scalars;
  if (s.skip != 0.0f) return;
  const float inverse_bias1 = 1.0f / s.bias1, inverse_bias2 = 1.0f / s.bias2;
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    P w = reinterpret_cast<P*>(w_N)[p], m = reinterpret_cast<P*>(m_N)[p], v = reinterpret_cast<P*>(v_N)[p];
    const P gradient = reinterpret_cast<const P*>(gradient_N)[p];
    Pack<Copy, kCount> copy;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float g = s.gradient_scale * gradient.values[k];
      const float decay = p * kCount + k < decayed ? rates.weight_decay : 0.0f;
      m.values[k] = rates.beta1 * m.values[k] + (1.0f - rates.beta1) * g;
      v.values[k] = rates.beta2 * v.values[k] + (1.0f - rates.beta2) * (g * g);
      const float root = sqrtf(v.values[k] * inverse_bias2) + rates.eps;
      w.values[k] -= s.lr * (m.values[k] * inverse_bias1 / root + decay * w.values[k]);
      copy.values[k] = store<Copy>(w.values[k]);
    }
    reinterpret_cast<P*>(w_N)[p] = w, reinterpret_cast<P*>(m_N)[p] = m, reinterpret_cast<P*>(v_N)[p] = v;
    if (copy_N) reinterpret_cast<Pack<Copy, kCount>*>(copy_N)[p] = copy;
  }
}

}  // namespace

template <>
void adamw_scalars(CudaStream stream, AdamWScalars* scalars, float* norm, const double* partials_n, Size n,
                   const float* loss, float clip, const AdamWRates* rates, LossScaleState* scaling) {
  adamw_scalars_kernel<<<1, 1, 0, stream_of(stream)>>>(scalars, norm, partials_n, n, loss, clip, rates, scaling);
  check_launch("adamw_scalars");
}

template <>
void adamw_update(CudaStream stream, float* w_N, float* m_N, float* v_N, const float* gradient_N, void* copy_N,
                  DType copy_dtype, Size N, Size decayed, float beta1, float beta2, float eps, float weight_decay,
                  const AdamWScalars* scalars) {
  if (N == 0) return;
  const Rates rates{beta1, beta2, eps, weight_decay};
  const auto launch = [&]<class Copy>(Copy* copy) {
    // Every element goes through the same instructions, so a range may be cut anywhere.
    dispatch_flag(N % 4 == 0 && aligned(w_N, m_N, v_N, gradient_N) && reinterpret_cast<std::uintptr_t>(copy) % 8 == 0,
                  [&](auto whole) {
                    constexpr int kCount = whole.value ? 4 : 1;
                    adamw_update_kernel<kCount><<<blocks_for(stream, N / kCount), kThreads, 0, stream_of(stream)>>>(
                        w_N, m_N, v_N, gradient_N, copy, N, decayed, rates, scalars);
                  });
  };
  dispatch_copy(copy_N, copy_dtype, launch);
  check_launch("adamw_update");
}

}  // namespace lt::kernels
