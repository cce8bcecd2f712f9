// Attention on CUDA cores for every shape with D up to 256 and every floating dtype. Used for f32 and f64, and for bf16
// and f16 if cuDNN does not support the shape. The order of sums depends only on the shape and the documents.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::own {

// Which documents a call computes. With `short_ones`, the outputs of long documents are not written.
enum class Documents { all, short_ones };

void attention_forward(CudaStream stream, const AttentionForward& call, Documents documents = Documents::all);
// The workspace holds delta_BHT = sum_D(dout * out), in the arithmetic type.
void attention_backward(CudaStream stream, const AttentionBackward& call, Documents documents = Documents::all);

}  // namespace lt::kernels::own
