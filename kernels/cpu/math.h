// The exponential of the CPU kernels, and access to arrays whose storage type differs from the arithmetic type. Compile
// without -ffast-math: rounding relies on the order of additions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "kernels/element_types.h"

namespace lt::kernels {

// Converts x to the arithmetic type, and back: a bf16 result is rounded to nearest even.
template <class T>
LT_INLINE Arithmetic<T> load(const T& x) {
  return static_cast<Arithmetic<T>>(x);
}
template <class T>
LT_INLINE T store(Arithmetic<T> x) {
  return static_cast<T>(x);
}

// Returns e^x for x <= 88; 0 below -87; NaN for NaN. The f32 version has no branch and vectorises inside parallel_for
// bodies; its relative error, measured over all floats, is below 1.5e-7 + 2e-8 |x|, or 1.5e-7 + 8e-8 |x| without fused
// multiply-add. x log2 e = n + r with |r| <= 1/2; 2^r is a minimax polynomial. The f64 version is the standard
// library's.
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

}  // namespace lt::kernels
