// The products of y = x W^T + b, forward and backward, for operations that hold them. Gradients go straight into the
// slots of x, W and b; nothing happens for those that are null.
#pragma once

#include "kernels/gemm.h"
#include "libtrain/tensor/autograd.h"

namespace lt::ops {

// x [..., K], weight [N, K], bias [N] or undefined: the product and its epilogue, to be completed and given to
// multiply().
kernels::Gemm linear_product(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias);
// d, a and b of `product` lie on `device`.
void multiply(Device device, const kernels::Gemm& product);

// dW = dY^T X, db = sum of dY's rows. `x` is asked for where W is.
void add_parameter_gradients(const Slot& weight, const Slot& bias, const Tensor& dy, const Saved& x);
void add_input_gradient(const Slot& x, const Tensor& dy, const Tensor& weight);  // dX = dY W

// Throws UsageError naming `op` and the arguments, which are called `weight_name` and `bias_name`.
void check_linear(std::string_view op, const Tensor& x, std::string_view weight_name, const Tensor& weight,
                  std::string_view bias_name, const Tensor& bias);

}  // namespace lt::ops
