// Elementwise functions and their gradients: exp, log, sqrt, tanh, relu, sigmoid, and those of an element and a number.
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

// Functions of an element x and a number c, which is the same for all elements.
enum class NumberFunction : std::uint8_t {
  add,          // x + c
  subtract_by,  // c - x
  divide,       // x / c
  divide_by,    // c / x
  power,        // x^c; exactly x * x for c = 2
};
// True if the derivative depends on x.
constexpr bool gradient_needs_input(NumberFunction f) {
  return f == NumberFunction::divide_by || f == NumberFunction::power;
}

// y_N = f(x_N, c), rounded once. c is rounded to f32 first (f64 for f64). y may be x.
template <class S>
void number_function_forward(S stream, NumberFunction f, DType dtype, void* y_N, const void* x_N, double c, Size N);

// dx_N (+)= dy_N * df/dx(x_N, c); the derivative of x^0 is 0. x is unused unless gradient_needs_input(f). dx may be dy
// or x.
struct NumberFunctionBackward {
  NumberFunction f;
  DType dtype;
  void* dx_N;
  const void *dy_N, *x_N;
  double c;
  Size N;
  bool accumulate;
};
template <class S>
void number_function_backward(S stream, const NumberFunctionBackward& call);

}  // namespace lt::kernels
