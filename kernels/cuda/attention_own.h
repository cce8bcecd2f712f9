// Attention on CUDA cores for every shape with D up to 256 and every floating dtype. Runs f32 and f64, and bf16 and f16
// if cuDNN does not support the shape. The order of sums depends only on the shape.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::own {

void attention_forward(CudaStream stream, const AttentionForward& call);
// The workspace holds delta_BHT = sum_D(dout * out), in the arithmetic type.
void attention_backward(CudaStream stream, const AttentionBackward& call);

}  // namespace lt::kernels::own
