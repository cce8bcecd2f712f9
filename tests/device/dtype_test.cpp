// Element types. Every bf16 and f16 number is checked against the definition of rounding to nearest, ties to even.
#include "libtrain/dtype.h"

#include <cmath>
#include <limits>

#include "test_main/catch.h"

using namespace lt;

namespace {

constexpr float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr float bf16_from_bits(std::uint32_t bits) { return from_bits(bits << 16); }

// By definition: 2^-24 times the fraction with its hidden bit, shifted by the exponent.
double f16_from_bits(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// By definition: 2^-9 times the fraction with its hidden bit, shifted by the exponent; no code is an infinity.
double e4m3_from_bits(std::uint32_t bits) {
  const std::uint32_t exponent = bits >> 3 & 15, fraction = bits & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

}  // namespace

// One unit in the last place of bf16 at 1 is 2^-7.
static_assert(static_cast<float>(bf16(1.0f)) == 1.0f);
static_assert(static_cast<float>(bf16(1.0f + 0x1p-8f)) == 1.0f);            // a tie: the even neighbour is below
static_assert(static_cast<float>(bf16(1.0f + 0x3p-8f)) == 1.0f + 0x2p-7f);  // a tie: the even neighbour is above
static_assert(static_cast<float>(bf16(1.0f + 0x1p-8f + 0x1p-23f)) == 1.0f + 0x1p-7f);
static_assert(bf16(-0.0f).bits == 0x8000);
// For f16 it is 2^-10; the largest number is 65504, the smallest positive one 2^-24.
static_assert(static_cast<float>(f16(1.0f + 0x1p-11f)) == 1.0f);
static_assert(static_cast<float>(f16(1.0f + 0x3p-11f)) == 1.0f + 0x2p-10f);
static_assert(f16(65504.0f).bits == 0x7bff && f16(65519.0f).bits == 0x7bff && f16(65520.0f).bits == 0x7c00);
static_assert(f16(0x1p-24f).bits == 1 && f16(0x1p-25f).bits == 0 && f16(0x1.8p-24f).bits == 2 &&
              f16(-0.0f).bits == 0x8000);
static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);
static_assert(dtype_of<bf16> == DType::bf16 && dtype_of<f16> == DType::f16 && dtype_of<std::int32_t> == DType::i32 &&
              dtype_of<double> == DType::f64);

TEST_CASE("element types: bytes, names, kinds", "[device]") {
  struct Row {
    DType dtype;
    Size bytes;
    const char* name;
    bool floating;
  };
  for (const Row& row : {Row{DType::f32, 4, "f32", true},
                         {DType::f64, 8, "f64", true},
                         {DType::bf16, 2, "bf16", true},
                         {DType::f16, 2, "f16", true},
                         {DType::i32, 4, "i32", false},
                         {DType::u8, 1, "u8", false},
                         {DType::e4m3, 1, "e4m3", false}}) {
    INFO(row.name);
    CHECK(dtype_bytes(row.dtype) == row.bytes);
    CHECK(dtype_name(row.dtype) == row.name);
    CHECK(is_floating(row.dtype) == row.floating);
  }
}

TEST_CASE("bf16: every number survives, and what lies between two goes to the nearer, ties to the even", "[device]") {
  int wrong = 0;
  for (std::uint32_t sign : {0u, 0x8000u}) {
    for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {  // finite; the next one up may be infinity
      const std::uint32_t low = sign | bits, high = low + 1, even = low % 2 == 0 ? low : high;
      const std::uint32_t middle = (low << 16) | 0x8000u;
      wrong += bf16(bf16_from_bits(low)).bits != low;
      wrong += bf16(from_bits(middle - 1)).bits != low;
      wrong += bf16(from_bits(middle)).bits != even;
      wrong += bf16(from_bits(middle + 1)).bits != high;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16: every number survives, and what lies between two goes to the nearer, ties to the even", "[device]") {
  int wrong = 0;
  for (std::uint32_t sign : {0u, 0x8000u}) {
    for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
      const std::uint32_t low = sign | bits, high = low + 1, even = low % 2 == 0 ? low : high;
      // A float holds the middle exactly, so the floats beside it round to either side.
      const auto middle = static_cast<float>((f16_from_bits(low) + f16_from_bits(high)) / 2);
      const auto bits_of = [](std::uint32_t value) { return f16(static_cast<float>(f16_from_bits(value))).bits; };
      f16 number{};
      number.bits = static_cast<std::uint16_t>(low);
      wrong += static_cast<double>(static_cast<float>(number)) != f16_from_bits(low);
      wrong += bits_of(low) != low;
      wrong += f16(std::nextafter(middle, 0.0f)).bits != low;
      wrong += f16(middle).bits != even;
      wrong += f16(std::nextafter(middle, sign ? -1e9f : 1e9f)).bits != high;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16: infinities stay, NaN stays NaN", "[device]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, std::numeric_limits<float>::max(), 65520.0f}) {
    CHECK(static_cast<float>(f16(value)) == infinity);
    CHECK(static_cast<float>(f16(-value)) == -infinity);
  }
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    CHECK(std::isnan(static_cast<float>(f16(from_bits(bits)))));
    CHECK(f16(from_bits(bits)).bits >> 15 == bits >> 31);
  }
}

TEST_CASE("bf16: infinities stay, NaN stays NaN", "[device]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(bf16(infinity)) == infinity);
  CHECK(static_cast<float>(bf16(-infinity)) == -infinity);
  CHECK(static_cast<float>(bf16(std::numeric_limits<float>::max())) == infinity);  // nearer than the largest bf16
  CHECK(static_cast<float>(bf16(from_bits(0x7f7f7fffu))) == bf16_from_bits(0x7f7f));
  // A NaN's payload may lie in the truncated half, and rounding must not carry into the sign.
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    CHECK(std::isnan(static_cast<float>(bf16(from_bits(bits)))));
    CHECK(bf16(from_bits(bits)).bits >> 15 == bits >> 31);
  }
}

TEST_CASE("e4m3: every number, and the nearest one of what lies between", "[device]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::uint32_t sign : {0u, 0x80u}) {
    for (std::uint32_t bits = 0; bits < 0x7f; ++bits) {
      const double value = e4m3_from_bits(bits | sign);
      const e4m3 exact(static_cast<float>(value));
      CHECK(exact.bits == (bits | sign));
      CHECK(static_cast<double>(static_cast<float>(exact)) == value);
      if (bits == 0x7e) continue;
      const double next = e4m3_from_bits((bits + 1) | sign), half = (value + next) / 2;
      const auto of = [](double x) { return static_cast<std::uint32_t>(e4m3(static_cast<float>(x)).bits); };
      CHECK(of(half) == ((bits % 2 == 0 ? bits : bits + 1) | sign));
      CHECK(of(half - (next - value) / 1024) == (bits | sign));
      CHECK(of(half + (next - value) / 1024) == ((bits + 1) | sign));
    }
  }
  for (const float large : {449.0f, 464.0f, 465.0f, 1e30f, infinity}) {
    CHECK(e4m3(large).bits == 0x7e);
    CHECK(e4m3(-large).bits == 0xfe);
  }
  CHECK((e4m3(std::numeric_limits<float>::quiet_NaN()).bits & 0x7f) == 0x7f);
  CHECK(std::isnan(static_cast<float>(e4m3(std::numeric_limits<float>::quiet_NaN()))));
}
