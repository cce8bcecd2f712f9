// Packing, masking and prefetching for attention. Scores are transposed, s[key][query], so the softmax of many queries
// runs down the lanes of a register. Blocks have kBlock keys and queries, in the arithmetic type.
#pragma once

#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile.h"

namespace lt::kernels {

inline constexpr Size kBlock = 64;  // a multiple of every Tile's kRows and kColumns

// packed[rows][width] = factor * x for the first `count` rows and D columns, 0 elsewhere. Rows of x are `stride` apart.
template <class T>
LT_INLINE void pack_rows(Arithmetic<T>* packed, Size rows, Size width, const T* x, Size stride, Size count, Size D,
                         Arithmetic<T> factor) {
  for (Size i = 0; i < rows; ++i) {
    Arithmetic<T>* const out = packed + i * width;
    const Size filled = i < count ? D : 0;
#pragma omp simd
    for (Size d = 0; d < filled; ++d) out[d] = factor * load(x[i * stride + d]);
    for (Size d = filled; d < width; ++d) out[d] = 0;
  }
}

// Prefetches D columns of rows [begin, end) of x: one head's rows are too far apart for the hardware prefetcher.
template <bool kWrite = false, class T>
LT_INLINE void prefetch_rows(const T* x, Size stride, Size begin, Size end, Size D) {
  constexpr Size kLine = 64 / static_cast<Size>(sizeof(T));
  for (Size i = begin; i < end; ++i) {
    for (Size d = 0; d < D; d += kLine) __builtin_prefetch(x + i * stride + d, kWrite, 2);
  }
}

// packed[D][kBlock] = the transpose of the first D columns of rows[kBlock][width].
template <class A, int kBytes>
LT_INLINE void transpose_rows(A* packed, const A* rows, Size width, Size D) {
  using X = Transpose<A, kBytes>;
  using Vector = typename X::Vector;
  const Size whole = D / X::kLanes * X::kLanes;
  for (Size i = 0; i < kBlock; i += X::kLanes) {
    for (Size d = 0; d < whole; d += X::kLanes) {
      Vector x[X::kLanes];
      for (Size j = 0; j < X::kLanes; ++j) x[j] = *reinterpret_cast<const Vector*>(rows + (i + j) * width + d);
      X::block(x);
      for (Size j = 0; j < X::kLanes; ++j) *reinterpret_cast<Vector*>(packed + (d + j) * kBlock + i) = x[j];
    }
    for (Size d = whole; d < D; ++d) {
      for (Size j = 0; j < X::kLanes; ++j) packed[d * kBlock + i + j] = rows[(i + j) * width + d];
    }
  }
}

// Returns the first query for which keys j0 and later of a block are computed. On the diagonal, earlier queries do not
// see them.
template <class R>
LT_INLINE Size first_query(bool diagonal, Size j0) {
  return diagonal ? j0 / R::kColumns * R::kColumns : 0;
}

// s[key - j0][query] = value for the keys j0 .. j0 + kRows - 1 of a diagonal block and queries before them.
template <class A, class R>
LT_INLINE void hide_future(A* s, Size j0, A value) {
  for (Size j = 0; j < R::kRows; ++j) {
    for (Size i = first_query<R>(true, j0); i < j0 + j; ++i) s[j * kBlock + i] = value;
  }
}

// s[key - j0][query] = value for the keys j0 .. j0 + kRows - 1 of the block at k0 and the queries of the block at q0
// that no longer see them.
template <class A, class R>
LT_INLINE void hide_past(A* s, const SeenKeys& seen, Size q0, Size k0, Size j0, A value) {
  if (seen.first_seen(q0 + kBlock - 1) <= k0 + j0) return;
  Size beyond = 0;  // the block's first query that does not see the key
  for (Size j = 0; j < R::kRows; ++j) {
    while (beyond < kBlock && seen.first_seen(q0 + beyond) <= k0 + j0 + j) ++beyond;
    for (Size i = beyond; i < kBlock; ++i) s[j * kBlock + i] = value;
  }
}

}  // namespace lt::kernels
