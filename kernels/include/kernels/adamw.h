// AdamW on a flat range of parameters (Loshchilov & Hutter 2019, algorithm 2 with the decay scaled by the rate).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

// Numbers of one step, in device memory: the host never waits for them.
struct AdamWScalars {
  float lr;              // learning rate of this step
  float bias1, bias2;    // 1 - beta1^step, 1 - beta2^step
  float gradient_scale;  // multiplies every gradient: clipping
  float skip;            // not 0: leave everything as it is
};

// What of them the host says before a step, of number `step` from 1 on.
struct AdamWRates {
  float lr, bias1, bias2;
};
AdamWRates adamw_rates(float lr, float beta1, float beta2, Size step);

// norm[0] = sqrt of the sum of partials_n in order; fills `scalars` from `rates`, which are in device memory too:
// gradient_scale = clip / norm where clip > 0 and norm > clip, else 1; skip = 1 where norm or loss[0] is not finite.
template <class S>
void adamw_scalars(S stream, AdamWScalars* scalars, float* norm, const double* partials_n, Size n, const float* loss,
                   float clip, const AdamWRates* rates);

// For i in [0, N), with g = scalars->gradient_scale * gradient_i:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   w -= lr * ((m / bias1) / (sqrt(v / bias2) + eps) + decay_i * w),  decay_i = weight_decay for i < decayed, else 0.
// copy_N, where not null, receives w rounded to `copy_dtype` (bf16). All other arrays are f32.
// Every element is computed alike, so a range may be cut anywhere.
template <class S>
void adamw_update(S stream, float* w_N, float* m_N, float* v_N, const float* gradient_N, void* copy_N, DType copy_dtype,
                  Size N, Size decayed, float beta1, float beta2, float eps, float weight_decay,
                  const AdamWScalars* scalars);

}  // namespace lt::kernels
