// Stochastic rounding of f32 to bf16: a value becomes one of its two neighbours, each with a probability proportional
// to its nearness. Many small updates thus survive on average; rounding to nearest would lose them (Gupta et al.
// 2015, "Deep learning with limited numerical precision", section 3). The random bits of an element are a pure function
// of (seed, step, parameter, state, element), so they do not depend on rank count or strategy. Eight elements share the
// 128 bits of one counter.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "libtrain/api.h"
#include "libtrain/kernels/random.h"

namespace LT_API lt {

inline constexpr Size kRoundedTogether = 8;  // elements of one counter

// The bits of eight elements, starting at 8 * group.
constexpr std::array<std::uint32_t, 4> rounding_words(std::uint64_t key, Size group, std::int32_t step,
                                                      std::uint32_t state) {
  return philox(key, static_cast<std::uint64_t>(group), std::uint64_t{state} << 32 | static_cast<std::uint32_t>(step));
}

// The 16 bits of element `lane` of the eight.
constexpr std::uint32_t rounding_bits(const std::array<std::uint32_t, 4>& words, int lane) {
  return words[static_cast<std::size_t>(lane / 2)] >> (16 * (lane % 2)) & 0xffffu;
}

// Infinities and NaN stay unchanged.
constexpr bf16 round_stochastically(float value, std::uint32_t bits) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7f800000u) == 0x7f800000u) return bf16(value);
  return std::bit_cast<bf16>(static_cast<std::uint16_t>((u + bits) >> 16));
}

inline std::uint64_t rounding_key(std::uint64_t seed, const std::string& parameter) {
  return derive_key(seed, "rounding of " + parameter);
}
inline std::uint32_t rounding_state(std::string_view name) {
  return static_cast<std::uint32_t>(derive_key(0, name) >> 32);
}

// Maps a flat range to elements of parameters.
struct RoundingPlaces {
  static constexpr int kMost = 16;
  struct Place {
    Size begin;         // in the range
    Size element;       // of the parameter, at `begin`
    std::uint64_t key;  // rounding_key() of the parameter
  };
  int count = 0;  // at least 1
  Place places[kMost] = {};

  // The place of element i. Elements before the first place count to it.
  constexpr const Place& at(Size i) const {
    int last = 0;
    while (last + 1 < count && places[last + 1].begin <= i) ++last;
    return places[last];
  }
  // Whether every eight elements that start at a multiple of eight share a counter.
  constexpr bool are_aligned() const {
    for (int k = 0; k < count; ++k) {
      if (places[k].begin % kRoundedTogether != 0 || places[k].element % kRoundedTogether != 0) return false;
    }
    return true;
  }
};

}  // namespace lt
