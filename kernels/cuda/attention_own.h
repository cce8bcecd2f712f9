// Attention on CUDA cores for every shape with D up to 256 and every floating dtype: the path of f32 and f64, and of
// bf16 where cuDNN does not take a shape. Sums run in an order that the shape alone decides.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::own {

void attention_forward(CudaStream stream, const AttentionForward& call);
// The workspace takes delta_BHT = sum_D(dout * out), in the type of the arithmetic.
void attention_backward(CudaStream stream, const AttentionBackward& call);

}  // namespace lt::kernels::own
