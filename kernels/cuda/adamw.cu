// AdamW on the GPU, one pass over memory.
#include "kernels/adamw.h"

#include "kernels/copy_dtype.h"
#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

template <int kCount, class Copy>
__global__ void adamw_update_kernel(float* w_N, float* m_N, float* v_N, const float* gradient_N, Copy* copy_N, Size N,
                                    Size decayed, AdamWFactors factors, const StepNumbers* numbers) {
  using P = Pack<float, kCount>;
  const StepNumbers s = *numbers;
  if (s.skip != 0.0f) return;
  const float inverse_bias1 = 1.0f / s.bias[0], inverse_bias2 = 1.0f / s.bias[1];
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    P w = reinterpret_cast<P*>(w_N)[p], m = reinterpret_cast<P*>(m_N)[p], v = reinterpret_cast<P*>(v_N)[p];
    const P gradient = reinterpret_cast<const P*>(gradient_N)[p];
    Pack<Copy, kCount> copy;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float g = s.gradient_scale * gradient.values[k];
      const float decay = p * kCount + k < decayed ? factors.weight_decay : 0.0f;
      m.values[k] = factors.beta1 * m.values[k] + (1.0f - factors.beta1) * g;
      v.values[k] = factors.beta2 * v.values[k] + (1.0f - factors.beta2) * (g * g);
      const float root = sqrtf(v.values[k] * inverse_bias2) + factors.eps;
      w.values[k] -= s.lr * (m.values[k] * inverse_bias1 / root + decay * w.values[k]);
      copy.values[k] = store<Copy>(w.values[k]);
    }
    reinterpret_cast<P*>(w_N)[p] = w, reinterpret_cast<P*>(m_N)[p] = m, reinterpret_cast<P*>(v_N)[p] = v;
    if (copy_N) reinterpret_cast<Pack<Copy, kCount>*>(copy_N)[p] = copy;
  }
}

}  // namespace

template <>
void adamw_update(CudaStream stream, const AdamWRange& r, const AdamWFactors& factors, const StepNumbers* numbers) {
  if (r.N == 0) return;
  const auto launch = [&]<class Copy>(Copy* copy) {
    // Every element goes through the same instructions, so a range may be cut anywhere.
    const bool whole_packs = r.N % 4 == 0 && aligned(r.w_N, r.m_N, r.v_N, r.gradient_N);
    dispatch_flag(whole_packs && reinterpret_cast<std::uintptr_t>(copy) % 8 == 0, [&](auto whole) {
      constexpr int kCount = whole.value ? 4 : 1;
      adamw_update_kernel<kCount><<<blocks_for(stream, r.N / kCount), kThreads, 0, stream_of(stream)>>>(
          r.w_N, r.m_N, r.v_N, r.gradient_N, copy, r.N, r.decayed, factors, numbers);
    });
  };
  dispatch_copy(r.copy_N, r.copy_dtype, launch);
  check_launch("adamw_update");
}

}  // namespace lt::kernels
