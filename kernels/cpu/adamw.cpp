// AdamW on the CPU in one pass over memory.
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/adamw_types.h"
#include "kernels/cpu/rounded_block.h"

namespace lt::kernels {
namespace {

struct Factors {
  float beta1, beta2, eps, lr, gradient_scale, inverse_bias1, inverse_bias2;
};

LT_INLINE void update_block(float* w, float* m, float* v, const float* gradient, const Factors& f, float decay) {
#pragma omp simd
  for (Size i = 0; i < kRoundedBlock; ++i) {
    const float g = f.gradient_scale * gradient[i];
    m[i] = f.beta1 * m[i] + (1.0f - f.beta1) * g;
    v[i] = f.beta2 * v[i] + (1.0f - f.beta2) * (g * g);
    const float root = std::sqrt(v[i] * f.inverse_bias2) + f.eps;
    w[i] -= f.lr * (m[i] * f.inverse_bias1 / root + decay * w[i]);
  }
}

template <bool kCopy, class W, class State, class Copy>
void update(const AdamWRange& range, Copy* copy_N, float weight_decay, Factors factors, std::int32_t step) {
  W* const w_N = static_cast<W*>(range.w_N);
  State *const m_N = static_cast<State*>(range.m_N), *const v_N = static_cast<State*>(range.v_N);
  const float* const gradient_N = range.gradient_N;
  const RoundingSegments* const rounding = range.rounding;
  const Size decayed = range.decayed;
  const AdamWRoundingStates states;
  parallel_for(range.N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
    const Factors f = factors;
    alignas(64) float part[4][kRoundedBlock] = {};
    for (Size i = begin; i < end;) {
      const float decay = i < decayed ? weight_decay : 0.0f;
      const Size limit = i < decayed && decayed < end ? decayed : end;
      const Size n = limit - i < kRoundedBlock ? limit - i : kRoundedBlock;
      float *const w = in_f32(w_N + i, part[0], n), *const m = in_f32(m_N + i, part[1], n);
      float* const v = in_f32(v_N + i, part[2], n);
      if (n != kRoundedBlock) move(part[3], gradient_N + i, n);
      update_block(w, m, v, n == kRoundedBlock ? gradient_N + i : part[3], f, decay);
      put_back(w_N + i, w, n, i, rounding, step, states.w);
      put_back(m_N + i, m, n, i, rounding, step, states.m);
      put_back(v_N + i, v, n, i, rounding, step, states.v);
      if constexpr (kCopy) {
#pragma omp simd
        for (Size k = 0; k < n; ++k) copy_N[i + k] = store<Copy>(w[k]);
      }
      i += n;
    }
  });
}

}  // namespace

template <>
void adamw_update(CpuStream, const AdamWRange& range, const AdamWFactors& given, const StepNumbers* numbers) {
  if (numbers->skip != 0.0f) return;
  const Factors factors{given.beta1,
                        given.beta2,
                        given.eps,
                        numbers->lr,
                        numbers->gradient_scale,
                        1.0f / numbers->bias[0],
                        1.0f / numbers->bias[1]};
  dispatch_adamw(range, [&]<class W, class State, class Copy>(Copy* copy) {
    dispatch_flag(copy != nullptr,
                  [&](auto flag) { update<flag, W, State>(range, copy, given.weight_decay, factors, numbers->step); });
  });
}

}  // namespace lt::kernels
