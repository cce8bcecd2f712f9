// Reads packs of f32 or bf16 arrays into f32 registers and writes them back; bf16 is rounded stochastically.
#pragma once

#include <type_traits>

#include "kernels/cuda/common.cuh"
#include "libtrain/kernels/stochastic_rounding.h"

namespace lt::kernels {

template <class T, int kCount>
__device__ void put(T* array_N, Size pack, const float (&values)[kCount], const RoundingSegments& segments,
                    std::int32_t step, std::uint32_t state) {
  Pack<T, kCount> packed;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) packed.values[k] = values[k];
  } else {
    const Size i = pack * kCount;
    const RoundingSegments::Segment& segment = segments.at(i);
    const Size element = segment.element + (i - segment.begin);
    const auto words = rounding_words(segment.key, element / kRoundedTogether, step, state);
    const int first = kCount == kRoundedTogether ? 0 : static_cast<int>(element % kRoundedTogether);
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      packed.values[k] = round_stochastically(values[k], rounding_bits(words, first + k));
  }
  reinterpret_cast<Pack<T, kCount>*>(array_N)[pack] = packed;
}

template <int kCount, class T>
__device__ void get(float (&values)[kCount], const T* array_N, Size pack) {
  const auto packed = reinterpret_cast<const Pack<T, kCount>*>(array_N)[pack];
#pragma unroll
  for (int k = 0; k < kCount; ++k) values[k] = load(packed.values[k]);
}

}  // namespace lt::kernels
