// Elementwise functions and their gradients: exp, log, sqrt, tanh, relu, sigmoid.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

enum class ElementFunction : std::uint8_t { exp, log, sqrt, tanh, relu, sigmoid };

// y_N = f(x_N). y may be x.
template <class S>
void function_forward(S stream, ElementFunction f, DType dtype, void* y_N, const void* x_N, Size N);
// dx_N (+)= dy_N * f'(x_N), with relu'(0) = 0. dx may be dy or x.
template <class S>
void function_backward(S stream, ElementFunction f, DType dtype, void* dx_N, const void* dy_N, const void* x_N, Size N,
                       bool accumulate);

}  // namespace lt::kernels
