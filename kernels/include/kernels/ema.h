// Exponential moving average of weights (Polyak & Juditsky 1992; bias correction as in Kingma & Ba 2015, section 3).
#pragma once

#include "kernels/common.h"
#include "libtrain/kernels/step_numbers.h"

namespace lt::kernels {

// For i in [0, N): average_i += (1 - decay) / numbers->bias[bias] * (w_i - average_i), where bias[bias] is 1 - decay^n.
// After n consecutive updates, average is the weighted mean of the weights after each of them; after the first it is w
// itself. Changes nothing if numbers->skip is set. w is of `dtype`, f32 or bf16.
template <class S>
void ema_update(S stream, float* average_N, DType dtype, const void* w_N, Size N, double decay, int bias,
                const StepNumbers* numbers);

}  // namespace lt::kernels
