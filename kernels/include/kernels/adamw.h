// AdamW on a flat range of parameters (Loshchilov & Hutter 2019, algorithm 2 with the decay scaled by lr).
#pragma once

#include "kernels/common.h"
#include "libtrain/kernels/step_numbers.h"
#include "libtrain/kernels/stochastic_rounding.h"

namespace lt::kernels {

struct AdamWFactors {
  float beta1, beta2, eps, weight_decay;
};

// Arrays of N elements.
struct AdamWRange {
  void *w_N, *m_N, *v_N;
  const float* gradient_N;
  void* copy_N;  // receives w rounded to `copy_dtype`, bf16 or f16; null: no copy, as for bf16 w
  DType copy_dtype;
  Size N;
  Size decayed;                                          // the first `decayed` elements have weight decay
  DType w_dtype = DType::f32, state_dtype = DType::f32;  // of w; of m and v: f32 or bf16
  const RoundingSegments* rounding = nullptr;            // in host memory; null if all three are f32
};

// Computes in f32, for i in [0, N), with g = numbers->gradient_scale * gradient_i:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   w -= lr * ((m / bias[0]) / (sqrt(v / bias[1]) + eps) + decay_i * w),
//   decay_i = weight_decay for i < decayed, else 0.
// w, m and v are f32, or bf16 that is rounded stochastically. Elements are independent: a range may be split anywhere.
template <class S>
void adamw_update(S stream, const AdamWRange& range, const AdamWFactors& factors, const StepNumbers* numbers);

}  // namespace lt::kernels
