// linear() with products in e4m3.
#pragma once

#include "libtrain/tensor/tensor.h"

namespace lt::ops {

// linear() with products in e4m3, for arguments that linear() has checked and multiplies_in_fp8() takes.
Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual);

}  // namespace lt::ops
