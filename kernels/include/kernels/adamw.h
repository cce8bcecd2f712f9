// AdamW on a flat range of parameters (Loshchilov & Hutter 2019, algorithm 2 with the decay scaled by the rate).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

// Numbers of one step, in device memory: the host never waits for them.
struct AdamWScalars {
  float lr;              // learning rate of this step
  float bias1, bias2;    // 1 - beta1^step, 1 - beta2^step
  float gradient_scale;  // multiplies every gradient: clipping, and the inverse of the loss scale
  float skip;            // not 0: leave everything as it is
};

// What the host says before a step, of number `step` from 1 on.
struct AdamWRates {
  float lr, beta1, beta2;
  std::int32_t step;
};

// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), in device memory. The gradients of a step are `scale`
// times as large as those of the loss. A step whose gradients are not finite is skipped and halves the scale, down to
// 1; kScaleSteps others in a row double it.
struct LossScaleState {
  float scale;
  std::int32_t steps;    // since the scale changed
  std::int32_t skipped;  // of all steps so far: those without an update
};
inline constexpr float kFirstLossScale = 65536;
inline constexpr std::int32_t kScaleSteps = 2000;

// norm[0] = sqrt of the sum of partials_n in order, over the loss scale; fills `scalars` from `rates`:
// gradient_scale = clip / norm where clip > 0 and norm > clip, else 1, over the loss scale; skip = 1 where norm or
// loss[0] is not finite. All are in device memory. `scaling`, for the next step when it returns, or null: a scale of 1.
template <class S>
void adamw_scalars(S stream, AdamWScalars* scalars, float* norm, const double* partials_n, Size n, const float* loss,
                   float clip, const AdamWRates* rates, LossScaleState* scaling);

// For i in [0, N), with g = scalars->gradient_scale * gradient_i:
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//   w -= lr * ((m / bias1) / (sqrt(v / bias2) + eps) + decay_i * w),  decay_i = weight_decay for i < decayed, else 0.
// copy_N, where not null, receives w rounded to `copy_dtype` (bf16 or f16). All other arrays are f32.
// Every element is computed alike, so a range may be cut anywhere.
template <class S>
void adamw_update(S stream, float* w_N, float* m_N, float* v_N, const float* gradient_N, void* copy_N, DType copy_dtype,
                  Size N, Size decayed, float beta1, float beta2, float eps, float weight_decay,
                  const AdamWScalars* scalars);

}  // namespace lt::kernels
