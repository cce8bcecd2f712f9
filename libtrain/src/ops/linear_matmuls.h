// The matmuls of y = x W^T + b, forward and backward, for operations that contain them. Gradients go directly into the
// slots of x, W and b. A null slot is skipped.
#pragma once

#include "kernels/gemm.h"
#include "libtrain/tensor/autograd.h"

namespace lt::ops {

// Describes the forward matmul and its epilogue for x [..., K], weight [N, K], bias [N] or undefined. The caller may
// add to the description before passing it to multiply().
kernels::Gemm linear_matmul(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
// Runs `matmul` on `device`, which must hold d, a and b.
void multiply(Device device, const kernels::Gemm& matmul);

// dW = dY^T X, db = sum of dY's rows. Reads `x` only if `weight` is not null.
void add_parameter_gradients(const Slot& weight, const Slot& bias, const Tensor& dy, const Saved& x);
void add_input_gradient(const Slot& x, const Tensor& dy, const Tensor& weight);  // dX = dY W

// Throws UsageError that names `op` and the argument: x, `weight_name` or `bias_name`.
void check_linear(std::string_view op, const Tensor& x, std::string_view weight_name, const Tensor& weight,
                  std::string_view bias_name, const Tensor& bias);

}  // namespace lt::ops
