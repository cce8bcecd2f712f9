// GELU, SiLU and their derivatives. Both are x times a sigmoid: one exponential and one division each.
#pragma once

namespace lt::kernels {

__device__ inline float sigmoid(float z) { return 1.0f / (1.0f + __expf(-z)); }
__device__ inline double sigmoid(double z) { return 1.0 / (1.0 + exp(-z)); }

inline constexpr double kSqrt2OverPi = 0.7978845608028653558798921198687637369517;
inline constexpr double kCubic = 0.044715;

// 0.5 (1 + tanh u) = sigmoid(2u).
template <class A>
__device__ inline A gelu(A x) {
  return x * sigmoid(x * (A(2 * kSqrt2OverPi) + A(2 * kSqrt2OverPi * kCubic) * (x * x)));
}
template <class A>
__device__ inline A gelu_derivative(A number) {
  // Beyond 64 and -64 the derivative is 1 and 0. The square of a larger x can overflow, and 0 times infinity is NaN.
  // NaN stays NaN.
  const A x = number > A(64) ? A(64) : number < A(-64) ? A(-64) : number;
  const A square = x * x;
  const A s = sigmoid(x * (A(2 * kSqrt2OverPi) + A(2 * kSqrt2OverPi * kCubic) * square));
  const A slope = A(2 * kSqrt2OverPi) + A(6 * kSqrt2OverPi * kCubic) * square;  // derivative of the sigmoid's argument
  return s + x * s * (A(1) - s) * slope;
}
template <class A>
__device__ inline A silu_derivative(A x, A s) {
  return s * (A(1) + x * (A(1) - s));
}

}  // namespace lt::kernels
