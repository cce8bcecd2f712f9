// Tiles of rows in shared memory, and attention's two matmuls on them. A block has 16 x 16 threads; (ty, tx) owns rows
// ty*R .. ty*R+R-1 of a tile. The 16 threads of a row are half a warp, so data shared within a row needs only
// __syncwarp(). Legend: DP is D padded with zeros to 64, 128 or 256; A the arithmetic type; R rows, C columns per
// thread.
#pragma once

#include <limits>

#include "kernels/attention_options.h"
#include "kernels/cuda/common.cuh"
#include "kernels/limits.h"

namespace lt::kernels::tile {

inline constexpr int kSide = 16;
static_assert(kSide * kSide == kThreads);

// Four elements read at once. Rows are padded by 16 bytes, so that 8 threads reading 8 rows meet no bank conflict.
template <class A>
struct alignas(16) Four {
  A v[4];
};
template <class A, int kColumns>
inline constexpr int kStride = kColumns + 16 / static_cast<int>(sizeof(A));

template <class A>
__device__ const Four<A>& four(const A* x) {
  return *reinterpret_cast<const Four<A>*>(x);
}

__device__ inline int row_of_thread() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int column_of_thread() { return static_cast<int>(threadIdx.x) % kSide; }

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }

// Finite instead of -inf: a query may see no key of its first tile, and exp(-inf - -inf) is NaN. Rescaling by the next
// tile's maximum, exp(hidden - max) = 0, discards such a tile.
template <class A>
__device__ constexpr A hidden_score() {
  return std::numeric_limits<A>::lowest() / 2;
}

// True if the window or a document's start hides a key at or after `first_key` from a query up to `last`. One such test
// per tile makes tiles without hidden keys as fast as without a window.
__device__ inline bool hides_past(const SeenKeys& seen, Size last, Size first_key) {
  return seen.first_seen(last) > first_key;
}

// The tokens of one sequence that a call computes: all, or only those of short documents.
struct Chosen {
  SeenKeys seen;
  bool all;

  __device__ bool has(Size t) const { return all || !is_long_document(seen, seen.starts_T[t]); }
  // first() returns the first of tokens begin .. end-1 that is computed, or `end`; last() returns the last one, or a
  // number < begin. All threads of a warp must call them together.
  __device__ Size first(Size begin, Size end) const {
    for (; !all && begin < end; begin += 32) {
      const Size t = begin + threadIdx.x % 32;
      const unsigned lanes = __ballot_sync(0xffffffffu, t < end && has(t));
      if (lanes != 0) return begin + __ffs(static_cast<int>(lanes)) - 1;
    }
    return begin < end ? begin : end;
  }
  __device__ Size last(Size begin, Size end) const {
    for (; !all && begin < end; end -= 32) {
      const Size t = end - 1 - threadIdx.x % 32;
      const unsigned lanes = __ballot_sync(0xffffffffu, t >= begin && has(t));
      if (lanes != 0) return end - __ffs(static_cast<int>(lanes));
    }
    return end - 1;
  }
};

// Returns the index of the statistics of query t of head h in [B, H, T], or with documents in [B, T, H], the layout of
// cuDNN's ragged sequences.
__device__ inline Size statistics_at(const AttentionShape& s, bool documents, Size b, Size h, Size t) {
  return documents ? (b * s.T + t) * s.H + h : (b * s.H + h) * s.T + t;
}

// Loads rows begin .. begin+kRows-1 of x_TD, `stride` elements apart, into s[kRows][kStride]; zeros beyond T and D.
template <int DP, int kRows, class T>
__device__ void load_rows(Arithmetic<T>* s, const T* x_TD, Size stride, Size begin, Size T_, int D) {
  using A = Arithmetic<T>;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * DP; i += kThreads) {
    const int row = i / DP, d = i % DP;
    const Size t = begin + row;
    s[row * kStride<A, DP> + d] = t < T_ && d < D ? static_cast<A>(x_TD[t * stride + d]) : A(0);
  }
}

// acc[i][j] = a[ty*R + i] . b[tx + 16*j] over D.
template <int DP, class A, int R, int C>
__device__ void dot_rows(A (&acc)[R][C], const A* a, const A* b, int D) {
  constexpr int kRow = kStride<A, DP>;
  a += row_of_thread() * R * kRow, b += column_of_thread() * kRow;
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j) acc[i][j] = 0;
  }
#pragma unroll 2
  for (int d = 0; d < D; d += 4) {
    Four<A> x[R];
#pragma unroll
    for (int i = 0; i < R; ++i) x[i] = four(a + i * kRow + d);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const Four<A> y = four(b + j * kSide * kRow + d);
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][j] += x[i].v[e] * y.v[e];
      }
    }
  }
}

// Returns the index of the thread's column c in the result: 16 threads share 64 columns, four each.
__device__ inline int column_of_matmul(int c) { return c / 4 * 64 + 4 * column_of_thread() + c % 4; }

// acc[i] += sum over n < N of p[ty*R + i][n] * b[n]; b has DP columns.
template <int DP, int N, class A, int R>
__device__ void add_matmul(A (&acc)[R][DP / kSide], const A* p, const A* b) {
  constexpr int kRow = kStride<A, DP>, kP = kStride<A, N>;
  p += row_of_thread() * R * kP, b += 4 * column_of_thread();
#pragma unroll 1
  for (int n = 0; n < N; n += 4) {
    Four<A> x[R];
#pragma unroll
    for (int i = 0; i < R; ++i) x[i] = four(p + i * kP + n);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int c = 0; c < DP / 64; ++c) {
        const Four<A> y = four(b + (n + e) * kRow + c * 64);
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
          for (int f = 0; f < 4; ++f) acc[i][c * 4 + f] += x[i].v[e] * y.v[f];
        }
      }
    }
  }
}

// y_TD[begin + ty*R + i] = factor[i] * acc[i], only for chosen rows below T and columns below D.
template <int DP, class T, int R>
__device__ void store_rows(T* y_TD, Size stride, Size begin, Size T_, int D, const Arithmetic<T> (&acc)[R][DP / kSide],
                           const Arithmetic<T> (&factor)[R], const Chosen& chosen) {
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const Size t = begin + row_of_thread() * R + i;
    if (t >= T_ || !chosen.has(t)) continue;
#pragma unroll
    for (int c = 0; c < DP / kSide; ++c) {
      const int d = column_of_matmul(c);
      if (d < D) y_TD[t * stride + d] = static_cast<T>(factor[i] * acc[i][c]);
    }
  }
}

// Reduce over the 16 threads of a row; all get the result.
template <class A>
__device__ A row_max(A x) {
  return warp_max<kSide>(x);
}
template <class A>
__device__ A row_sum(A x) {
  return warp_sum<kSide>(x);
}

// Dynamic shared memory as an array.
template <class A>
__device__ A* shared_array() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<A*>(memory);
}

// Calls f.operator()<DP>() with the padded head size as a constant.
template <class F>
void dispatch_head_size(Size D, F&& f) {
  if (D <= 64) return f.template operator()<64>();
  if (D <= 128) return f.template operator()<128>();
  if (D <= 256) return f.template operator()<256>();
  require_head_size(DeviceType::cuda, D);
}

}  // namespace lt::kernels::tile
