// Reductions along a row into a fixed number of interleaved partial results. They vectorise for every storage type, and
// the order of additions is the same at every vector width.
#pragma once

#include "kernels/cpu/parallel.h"

namespace lt::kernels {

inline constexpr Size kLanes = 32;

// Calls f(i, i % kLanes) for i in [0, n). f is a lambda marked LT_VECTOR_BODY that updates element i % kLanes of arrays
// of kLanes partial results, and may write arrays at i.
template <class F>
LT_INLINE void for_lanes(Size n, F f) {
  Size i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (Size k = 0; k < kLanes; ++k) f(i + k, k);
  }
#pragma omp simd
  for (Size k = 0; k < n - i; ++k) f(i + k, k);
}

// Combines the partial results by halving. Destroys them.
template <Size kHalf, class A, class F>
LT_INLINE A fold_by(A (&lanes)[kLanes], F combine) {
#pragma omp simd
  for (Size k = 0; k < kHalf; ++k) lanes[k] = combine(lanes[k], lanes[k + kHalf]);
  if constexpr (kHalf > 1) fold_by<kHalf / 2>(lanes, combine);
  return lanes[0];
}

template <class A>
LT_INLINE A fold(A (&lanes)[kLanes]) {
  return fold_by<kLanes / 2>(lanes, [](A a, A b) LT_VECTOR_BODY { return a + b; });
}

// Maximum of the partial results; may miss a NaN.
template <class A>
LT_INLINE A fold_max(A (&lanes)[kLanes]) {
  return fold_by<kLanes / 2>(lanes, [](A a, A b) LT_VECTOR_BODY { return a > b ? a : b; });
}

}  // namespace lt::kernels
