// AdamW on the CPU, one pass over memory. Every element goes through the same instructions: a part of a block is copied
// into a whole block and updated there, so a range cut anywhere gives the same bits.
#include "kernels/adamw.h"

#include <cmath>

#include "kernels/copy_dtype.h"
#include "kernels/cpu/map.h"

namespace lt::kernels {
namespace {

constexpr Size kBlock = 64;

struct Factors {
  float beta1, beta2, eps, lr, gradient_scale, inverse_bias1, inverse_bias2;
};

LT_INLINE void update_block(float* w, float* m, float* v, const float* gradient, const Factors& f, float decay) {
#pragma omp simd
  for (Size i = 0; i < kBlock; ++i) {
    const float g = f.gradient_scale * gradient[i];
    m[i] = f.beta1 * m[i] + (1.0f - f.beta1) * g;
    v[i] = f.beta2 * v[i] + (1.0f - f.beta2) * (g * g);
    const float root = std::sqrt(v[i] * f.inverse_bias2) + f.eps;
    w[i] -= f.lr * (m[i] * f.inverse_bias1 / root + decay * w[i]);
  }
}

template <class T>
LT_INLINE void move(T* to, const T* from, Size n) {
  for (Size i = 0; i < n; ++i) to[i] = from[i];
}

template <bool kCopy, class Copy>
void update(const AdamWRange& range, Copy* copy_N, float weight_decay, Factors factors) {
  float *const w_N = range.w_N, *const m_N = range.m_N, *const v_N = range.v_N;
  const float* const gradient_N = range.gradient_N;
  const Size decayed = range.decayed;
  parallel_for(range.N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
    const Factors f = factors;
    alignas(64) float part[4][kBlock] = {};
    for (Size i = begin; i < end;) {
      const float decay = i < decayed ? weight_decay : 0.0f;
      const Size limit = i < decayed && decayed < end ? decayed : end;
      const Size n = limit - i < kBlock ? limit - i : kBlock;
      const bool whole = n == kBlock;
      if (!whole) {
        move(part[0], w_N + i, n), move(part[1], m_N + i, n);
        move(part[2], v_N + i, n), move(part[3], gradient_N + i, n);
      }
      float *const w = whole ? w_N + i : part[0], *const m = whole ? m_N + i : part[1];
      float* const v = whole ? v_N + i : part[2];
      update_block(w, m, v, whole ? gradient_N + i : part[3], f, decay);
      if (!whole) move(w_N + i, part[0], n), move(m_N + i, part[1], n), move(v_N + i, part[2], n);
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
  const auto run = [&]<class Copy>(Copy* copy) {
    dispatch_flag(copy != nullptr, [&](auto flag) { update<flag>(range, copy, given.weight_decay, factors); });
  };
  dispatch_copy(range.copy_N, range.copy_dtype, run);
}

}  // namespace lt::kernels
