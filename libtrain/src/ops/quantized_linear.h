// linear() with matmuls in e4m3.
#pragma once

#include "libtrain/tensor/tensor.h"

namespace lt::ops {

// The caller must have checked the arguments as linear() does, and multiplies_in_fp8() must be true.
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual);

}  // namespace lt::ops
