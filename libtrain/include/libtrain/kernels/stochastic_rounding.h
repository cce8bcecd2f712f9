// Stochastic rounding of f32 to bf16. A value becomes one of its two bf16 neighbours, the upper one with probability
// (value - lower) / (upper - lower). So small updates survive on average; rounding to nearest would lose them (Gupta et
// al. 2015, "Deep learning with limited numerical precision", section 3). The random bits of an element are a pure
// function of (seed, step, parameter, state, element), so they do not depend on rank count or strategy. Eight elements
// share the 128 random bits of one Philox counter.
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

inline constexpr Size kRoundedTogether = 8;  // elements that share one counter

// Returns the random bits of elements 8 * group to 8 * group + 7. `key` is rounding_key(), `state` is rounding_state().
constexpr std::array<std::uint32_t, 4> rounding_words(std::uint64_t key, Size group, std::int32_t step,
                                                      std::uint32_t state) {
  return philox(key, static_cast<std::uint64_t>(group), std::uint64_t{state} << 32 | static_cast<std::uint32_t>(step));
}

// Returns the 16 random bits of element `lane` (0 to 7) of the eight.
constexpr std::uint32_t rounding_bits(const std::array<std::uint32_t, 4>& words, int lane) {
  return words[static_cast<std::size_t>(lane / 2)] >> (16 * (lane % 2)) & 0xffffu;
}

// Rounds `value` with the given 16 random bits. Infinities stay infinite and NaN stays NaN.
constexpr bf16 round_stochastically(float value, std::uint32_t bits) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  if ((u & 0x7f800000u) == 0x7f800000u) return bf16(value);
  return std::bit_cast<bf16>(static_cast<std::uint16_t>((u + bits) >> 16));
}

// Returns the key for a parameter's name.
inline std::uint64_t rounding_key(std::uint64_t seed, const std::string& parameter) {
  return derive_key(seed, "rounding of " + parameter);
}
// Returns the number for a state's name, such as "m".
inline std::uint32_t rounding_state(std::string_view name) {
  return static_cast<std::uint32_t>(derive_key(0, name) >> 32);
}

// Maps the elements of a flat range to elements of parameters. The range is a sequence of segments; each segment holds
// consecutive elements of one parameter.
struct RoundingSegments {
  static constexpr int kMaxSegments = 16;  // maximum number of segments
  struct Segment {
    Size begin;         // first element, as an index into the range
    Size element;       // the same element, as an index into the parameter
    std::uint64_t key;  // rounding_key() of the parameter
  };
  int count = 0;  // at least 1
  Segment segments[kMaxSegments] = {};

  // Returns the segment of element i of the range. Elements before the first segment belong to the first segment.
  constexpr const Segment& at(Size i) const {
    int last = 0;
    while (last + 1 < count && segments[last + 1].begin <= i) ++last;
    return segments[last];
  }
  // True if any eight consecutive elements of the range that start at a multiple of eight share a counter.
  constexpr bool are_aligned() const {
    for (int k = 0; k < count; ++k) {
      if (segments[k].begin % kRoundedTogether != 0 || segments[k].element % kRoundedTogether != 0) return false;
    }
    return true;
  }
};

}  // namespace lt
