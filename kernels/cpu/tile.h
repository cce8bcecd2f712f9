// Small dense matmuls whose sums stay in registers, written with the vector extensions of GCC and Clang. They are the
// core of libtrain's own matmul and of attention. Use inside parallel_for bodies, with the VectorBytes passed to them.
#pragma once

#include <utility>

#include "kernels/cpu/parallel.h"

namespace lt::kernels {

constexpr Size round_up(Size n, Size step) { return (n + step - 1) / step * step; }

// A block of kRows x kColumns sums of type A, in registers of kBytes.
template <class A, int kBytes>
struct Tile {
  static constexpr Size kLanes = kBytes / static_cast<int>(sizeof(A));
  static constexpr Size kRows = kBytes == 64 ? 8 : 4, kColumns = 2 * kLanes;
  typedef A Vector __attribute__((vector_size(kBytes), may_alias));

  // c (+)= a b for one tile: c[i * ldc + j] over K terms, in the order of k.
  // a's element (i, k) is a[i * lda + k], or a[k * lda + i] with kTransposed. Rows of b and c are aligned to kBytes.
  template <bool kAccumulate, bool kTransposed = false>
  LT_INLINE static void multiply(A* c, Size ldc, const A* a, Size lda, const A* b, Size ldb, Size K) {
    Vector sum[kRows][2];
#pragma GCC unroll 8
    for (Size i = 0; i < kRows; ++i) {
      if constexpr (kAccumulate) {
        sum[i][0] = *reinterpret_cast<const Vector*>(c + i * ldc);
        sum[i][1] = *reinterpret_cast<const Vector*>(c + i * ldc + kLanes);
      } else {
        sum[i][0] = sum[i][1] = Vector{};
      }
    }
    for (Size k = 0; k < K; ++k) {
      const Vector b0 = *reinterpret_cast<const Vector*>(b), b1 = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 8
      for (Size i = 0; i < kRows; ++i) {
        const A x = kTransposed ? a[i] : a[i * lda];
        sum[i][0] += x * b0;
        sum[i][1] += x * b1;
      }
      a += kTransposed ? lda : 1;
      b += ldb;
    }
#pragma GCC unroll 8
    for (Size i = 0; i < kRows; ++i) {
      *reinterpret_cast<Vector*>(c + i * ldc) = sum[i][0];
      *reinterpret_cast<Vector*>(c + i * ldc + kLanes) = sum[i][1];
    }
  }

  // Like multiply(), but for kRows rows and N columns. N is a multiple of kColumns.
  template <bool kAccumulate, bool kTransposed = false>
  LT_INLINE static void multiply_strip(A* c, Size ldc, const A* a, Size lda, const A* b, Size ldb, Size N, Size K) {
    for (Size n = 0; n < N; n += kColumns) multiply<kAccumulate, kTransposed>(c + n, ldc, a, lda, b + n, ldb, K);
  }
};

// Transposes the kLanes x kLanes block in x in log2(kLanes) rounds. Round s takes each pair of rows s apart and swaps
// their groups of lanes that lie s lanes off the diagonal.
template <class A, int kBytes>
struct Transpose {
  static constexpr Size kLanes = Tile<A, kBytes>::kLanes;
  using Vector = typename Tile<A, kBytes>::Vector;

  LT_INLINE static void block(Vector* x) { rounds<kLanes / 2>(x, std::make_integer_sequence<int, int(kLanes)>{}); }

 private:
  template <Size kStep, int... kLane>
  LT_INLINE static void rounds(Vector* x, std::integer_sequence<int, kLane...> lanes) {
#pragma GCC unroll 16
    for (Size i = 0; i < kLanes; ++i) {
      if (i & kStep) continue;
      const Vector a = x[i], b = x[i + kStep];
      x[i] = __builtin_shufflevector(a, b, (kLane & kStep ? kLane - int(kStep) + int(kLanes) : kLane)...);
      x[i + kStep] = __builtin_shufflevector(a, b, (kLane & kStep ? kLane + int(kLanes) : kLane + int(kStep))...);
    }
    if constexpr (kStep > 1) rounds<kStep / 2>(x, lanes);
  }
};

}  // namespace lt::kernels
