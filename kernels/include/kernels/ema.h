// The exponential moving average of weights (Polyak & Juditsky 1992; with the correction of its start as in Kingma & Ba
// 2015, section 3).
#pragma once

#include "kernels/common.h"
#include "libtrain/step_numbers.h"

namespace lt::kernels {

// For i in [0, N): average_i += (1 - decay) / numbers->bias[bias] * (w_i - average_i), where bias is 1 - decay^n at the
// n-th update. So the average is that of the weights after each update so far, and the first one is w itself. Nothing
// changes where numbers->skip is set. w is of `dtype`, f32 or bf16.
template <class S>
void ema_update(S stream, float* average_N, DType dtype, const void* w_N, Size N, double decay, int bias,
                const StepNumbers* numbers);

}  // namespace lt::kernels
