// Branch-free f32 functions that vectorise inside parallel_for bodies, their f64 counterparts from the standard
// library, and access to arrays whose storage type differs from the type of the arithmetic.
// Errors of the f32 functions were measured against f64 over all floats; NaN gives NaN.
// Compile without -ffast-math: rounding relies on the order of additions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::kernels {

// The type in which numbers stored as T are computed: f64 for f64, otherwise f32.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

// x as a number of the arithmetic type, and back: a bf16 result is rounded to nearest even.
template <class T>
LT_INLINE Arithmetic<T> load(const T& x) {
  return static_cast<Arithmetic<T>>(x);
}
template <class T>
LT_INLINE T store(Arithmetic<T> x) {
  return static_cast<T>(x);
}

// Calls f.template operator()<T>() with the element type of a floating dtype that the CPU computes with.
// Throws InternalError for any other.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::bf16:
      return f.template operator()<bf16>();
    default:
      break;
  }
  throw InternalError("kernels", "expected f32, f64 or bf16, found " + std::string(dtype_name(dtype)));
}

namespace detail {

// x = n ln 2 + r with |r| <= ln(2) / 2 and p = exp(r) - 1; n as an integer and as a float.
struct ExpParts {
  std::int32_t n;
  float p;
};

LT_INLINE ExpParts exp_parts(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * 1.44269504088896341f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, n * first is exact
  float q = 1.9875691500e-4f;                                    // minimax for (exp(r) - 1 - r) / r^2 (Cephes expf)
  q = q * r + 1.3981999507e-3f;
  q = q * r + 8.3334519073e-3f;
  q = q * r + 4.1665795894e-2f;
  q = q * r + 1.6666665459e-1f;
  q = q * r + 5.0000001201e-1f;
  return {std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kShift), q * (r * r) + r};
}

LT_INLINE float power_of_two(std::int32_t n) { return std::bit_cast<float>((n + 127) << 23); }  // n in [-127, 127]

}  // namespace detail

// e^x within 1.1 ulp (subnormal results within 1 step); inf above 88.73, 0 below -103.98.
LT_INLINE float fast_exp(float x) {
  x = 89.0f < x ? 89.0f : x;
  x = -104.0f > x ? -104.0f : x;
  const detail::ExpParts e = detail::exp_parts(x);
  const std::int32_t half = e.n >> 1;  // in two steps, since 2^n alone may overflow or be subnormal
  return (e.p + 1.0f) * detail::power_of_two(half) * detail::power_of_two(e.n - half);
}
LT_INLINE double fast_exp(double x) { return std::exp(x); }

// e^x for x <= 88; 0 below -87. Relative error below 1.5e-7 + 2e-8 |x|, or 7e-8 |x| on processors without fused
// multiply-add. Cheaper than fast_exp: for softmax and sigmoids. x log2 e = n + r with |r| <= 1/2; 2^r is a minimax
// polynomial.
LT_INLINE float fast_exp_negative(float x) {
  constexpr float kShift = 12582912.0f, kLog2E = 1.44269504088896341f;
  const float shifted = x * kLog2E + kShift;
  const float r = x * kLog2E - (shifted - kShift);
  float p = 1.53458124e-4f;
  p = p * r + 1.33999309e-3f;
  p = p * r + 9.61848907e-3f;
  p = p * r + 5.55032864e-2f;
  p = p * r + 2.40226462e-1f;
  p = p * r + 6.93147182e-1f;
  p = p * r + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);  // 2^n
  return x < -87.0f ? 0.0f : p * power;
}
LT_INLINE double fast_exp_negative(double x) { return std::exp(x); }

// tanh within 2.5 ulp, by expm1(2|x|) / (expm1(2|x|) + 2).
LT_INLINE float fast_tanh(float x) {
  const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  const float bounded = 10.0f < magnitude ? 10.0f : magnitude;
  const detail::ExpParts e = detail::exp_parts(2.0f * bounded);
  const float scale = detail::power_of_two(e.n);
  const float expm1 = scale * e.p + (scale - 1.0f);
  const float y = expm1 / (expm1 + 2.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(y) | (std::bit_cast<std::uint32_t>(x) & 0x80000000u));
}
LT_INLINE double fast_tanh(double x) { return std::tanh(x); }

// 1 / (1 + e^-x) within 2.5 ulp.
LT_INLINE float fast_sigmoid(float x) {
  const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  const float e = fast_exp(-magnitude);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
LT_INLINE double fast_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace lt::kernels
