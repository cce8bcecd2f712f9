// Blocks of arrays that are f32, or bf16 with stochastic rounding. Every element goes through the same instructions: a
// partial block is copied into a whole block and updated there. So a range may be split anywhere without changing bits.
#pragma once

#include <type_traits>

#include "kernels/cpu/map.h"
#include "libtrain/kernels/stochastic_rounding.h"

namespace lt::kernels {

inline constexpr Size kRoundedBlock = 64;

template <class T>
LT_INLINE void move(T* to, const T* from, Size n) {
  for (Size i = 0; i < n; ++i) to[i] = from[i];
}

// Returns a block of an array in f32: in segment, or in `copy`.
template <class T>
LT_INLINE float* in_f32(T* values, float* copy, Size n) {
  if constexpr (std::is_same_v<T, float>) {
    if (n == kRoundedBlock) return values;
  }
  for (Size k = 0; k < n; ++k) copy[k] = load(values[k]);
  return copy;
}

// Writes the block back. `at` is its first element in the range.
LT_INLINE void put_back(float* values, const float* block, Size n, Size, const RoundingSegments*, std::int32_t,
                        std::uint32_t) {
  if (block != values) move(values, block, n);
}
LT_INLINE void put_back(bf16* values, const float* block, Size n, Size at, const RoundingSegments* rounding,
                        std::int32_t step, std::uint32_t state) {
  for (Size k = 0; k < n;) {
    const RoundingSegments::Segment& segment = rounding->at(at + k);
    const Size element = segment.element + (at + k - segment.begin);
    const bool is_last = &segment + 1 == rounding->segments + rounding->count;
    const Size end = is_last || (&segment)[1].begin - at > n ? n : (&segment)[1].begin - at;
    const auto words = rounding_words(segment.key, element / kRoundedTogether, step, state);
    for (int lane = static_cast<int>(element % kRoundedTogether); lane < kRoundedTogether && k < end; ++lane, ++k) {
      values[k] = round_stochastically(block[k], rounding_bits(words, lane));
    }
  }
}

}  // namespace lt::kernels
