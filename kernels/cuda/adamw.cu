// AdamW on the GPU in one pass over memory.
#include "kernels/adamw.h"

#include "kernels/adamw_types.h"
#include "kernels/cuda/rounded_pack.cuh"

namespace lt::kernels {
namespace {

struct Rounding {
  RoundingSegments segments;
  AdamWRoundingStates states;
};

template <int kCount, class W, class State, class Copy>
__global__ void adamw_update_kernel(W* w_N, State* m_N, State* v_N, const float* gradient_N, Copy* copy_N, Size N,
                                    Size decayed, AdamWFactors factors, const StepNumbers* numbers,
                                    const __grid_constant__ Rounding rounding) {
  const StepNumbers s = *numbers;
  if (s.skip != 0.0f) return;
  const float inverse_bias1 = 1.0f / s.bias[0], inverse_bias2 = 1.0f / s.bias[1];
  for (Size p = thread_index(); p < N / kCount; p += thread_count()) {
    float w[kCount], m[kCount], v[kCount], gradient[kCount];
    get(w, w_N, p), get(m, m_N, p), get(v, v_N, p), get(gradient, gradient_N, p);
    Pack<Copy, kCount> copy;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const float g = s.gradient_scale * gradient[k];
      const float decay = p * kCount + k < decayed ? factors.weight_decay : 0.0f;
      m[k] = factors.beta1 * m[k] + (1.0f - factors.beta1) * g;
      v[k] = factors.beta2 * v[k] + (1.0f - factors.beta2) * (g * g);
      const float root = sqrtf(v[k] * inverse_bias2) + factors.eps;
      w[k] -= s.lr * (m[k] * inverse_bias1 / root + decay * w[k]);
      copy.values[k] = store<Copy>(w[k]);
    }
    put(w_N, p, w, rounding.segments, s.step, rounding.states.w);
    put(m_N, p, m, rounding.segments, s.step, rounding.states.m);
    put(v_N, p, v, rounding.segments, s.step, rounding.states.v);
    if (copy_N) reinterpret_cast<Pack<Copy, kCount>*>(copy_N)[p] = copy;
  }
}

}  // namespace

template <>
void adamw_update(CudaStream stream, const AdamWRange& r, const AdamWFactors& factors, const StepNumbers* numbers) {
  if (r.N == 0) return;
  Rounding rounding;
  if (r.rounding != nullptr) rounding.segments = *r.rounding;
  dispatch_adamw(r, [&]<class W, class State, class Copy>(Copy* copy) {
    constexpr bool kRounds = !std::is_same_v<W, float> || !std::is_same_v<State, float>;
    constexpr int kWhole = kRounds ? static_cast<int>(kRoundedTogether) : 4;
    // Every element goes through the same instructions, so a range may be split anywhere.
    const bool whole_packs = r.N % kWhole == 0 && aligned(r.w_N, r.m_N, r.v_N, r.gradient_N) &&
                             reinterpret_cast<std::uintptr_t>(copy) % (kWhole * sizeof(Copy)) == 0;
    dispatch_flag(whole_packs && (!kRounds || rounding.segments.are_aligned()), [&](auto whole) {
      constexpr int kCount = whole.value ? kWhole : 1;
      adamw_update_kernel<kCount><<<blocks_for(stream, r.N / kCount), kThreads, 0, stream_of(stream)>>>(
          static_cast<W*>(r.w_N), static_cast<State*>(r.m_N), static_cast<State*>(r.v_N), r.gradient_N, copy, r.N,
          r.decayed, factors, numbers, rounding);
    });
  });
  check_launch("adamw_update");
}

}  // namespace lt::kernels
