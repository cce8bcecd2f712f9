// Attention on CUDA cores for every shape with D up to 256 and every floating dtype: the path of f32 and f64, and of
// bf16 where cuDNN does not take a shape. The same arguments as in kernels/attention.h; `delta_BHT` is a workspace in
// the type of the arithmetic. Sums run in an order that the shape alone decides.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::own {

void attention_forward(CudaStream stream, DType dtype, void* out_BTHD, void* lse_BHT, const void* qkv,
                       const AttentionShape& shape, double scale);
void attention_backward(CudaStream stream, DType dtype, void* dqkv, const void* dout_BTHD, const void* qkv,
                        const void* out_BTHD, const void* lse_BHT, void* delta_BHT, const AttentionShape& shape,
                        double scale);

}  // namespace lt::kernels::own
