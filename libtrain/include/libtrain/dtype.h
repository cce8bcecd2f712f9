// Element types. bf16, f16 and e4m3 are storage types, which convert to float for arithmetic.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libtrain/api.h"

namespace LT_API lt {

// A number of elements or bytes, or the size of a dimension.
using Size = std::int64_t;

// e4m3 is only for operands of matmuls.
enum class DType : std::uint8_t { f32, f64, bf16, f16, i32, u8, e4m3 };

// Bytes of one element.
constexpr Size dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8:
    case DType::e4m3: return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::e4m3: return "e4m3";
  }
  return "?";
}

// True for f32, f64, bf16 and f16, the dtypes that operations compute with.
constexpr bool is_floating(DType dtype) { return dtype != DType::i32 && dtype != DType::u8 && dtype != DType::e4m3; }

// The upper half of an IEEE 754 binary32. Conversion from f32 rounds to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  constexpr explicit bf16(float value) : bits(round(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

 private:
  static constexpr std::uint16_t round(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    return static_cast<std::uint16_t>(is_nan ? (u >> 16) | 0x40u : rounded);
  }
};

// IEEE 754 binary16. Conversion from f32 rounds to nearest, ties to even. Magnitudes of at least 65520 become infinity;
// NaN stays NaN.
struct f16 {
  std::uint16_t bits;

  f16() = default;
  constexpr explicit f16(float value) : bits(round(value)) {}
  constexpr operator float() const {
    // The exponent biases of the two types differ by 112. The multiplication also normalises subnormal numbers.
    const std::uint32_t magnitude = bits & 0x7fffu, sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;  // infinity and NaN
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
  }

 private:
  static constexpr std::uint16_t round(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value), magnitude = u & 0x7fffffffu;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14 the last place is 2^-24. A float at 1/2 has the same last place, so adding 1/2 rounds correctly.
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;  // NaN, infinity
    const std::uint32_t result = magnitude < 0x38800000u ? subnormal : magnitude < 0x47800000u ? normal : large;
    return static_cast<std::uint16_t>(result | (u >> 16 & 0x8000u));
  }
};

// 4 exponent bits, 3 mantissa bits, no infinity, largest magnitude 448 (OCP 8-bit floating point, 2023). Conversion
// from f32 rounds to nearest, ties to even. Larger magnitudes, including infinity, become 448; NaN stays NaN.
struct e4m3 {
  std::uint8_t bits;

  e4m3() = default;
  constexpr explicit e4m3(float value) : bits(round(value)) {}
  constexpr operator float() const {
    // The exponent biases of the two types differ by 120. The multiplication also normalises subnormal numbers.
    const std::uint32_t magnitude = bits & 0x7fu, sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    const float scaled = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
    const std::uint32_t nan = magnitude == 0x7fu ? 0x7fc00000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | nan | sign);
  }

 private:
  static constexpr std::uint8_t round(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value), magnitude = u & 0x7fffffffu;
    const std::uint32_t normal = (magnitude - 0x3c000000u + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
    // Below 2^-6 the last place is 2^-9. A float at 2^14 has the same last place, so adding 2^14 rounds correctly.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
    const std::uint32_t large = magnitude > 0x7f800000u ? 0x7fu : 0x7eu;  // NaN, the largest
    const std::uint32_t result = magnitude < 0x3c800000u ? subnormal : magnitude < 0x43e80000u ? normal : large;
    return static_cast<std::uint8_t>(result | (u >> 24 & 0x80u));
  }
};

// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<e4m3> {
  static constexpr DType value = DType::e4m3;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace lt
