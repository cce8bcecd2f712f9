// libtrain's own matmul (blocking after Goto & van de Geijn 2008). Each thread computes a square tile of the output
// from packed operands. Sums stay in the arithmetic type until the tile is complete, so it is rounded once.
#include "kernels/cpu/gemm_loops.h"

#include "kernels/cpu/math.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile.h"

namespace lt::kernels {
namespace {

constexpr Size kDepth = 256;  // products per pass over packed operands
constexpr Size kLargeEdge = 128, kSmallEdge = 64;

// packed[strip][k][i] = x for `count` lines i and `depth` positions k, in strips of kStrip lines; the last strip is
// padded with 0. Element (i, k) is x[i * line + k * step].
template <Size kStrip, class A, class T>
LT_INLINE void pack(A* packed, const T* x, Size line, Size step, Size count, Size depth) {
  for (Size first = 0; first < count; first += kStrip, packed += depth * kStrip) {
    const Size n = count - first < kStrip ? count - first : kStrip;
    const T* const strip = x + first * line;
    for (Size k = 0; k < depth; ++k) {
      A* const out = packed + k * kStrip;
      for (Size i = 0; i < n; ++i) out[i] = load(strip[i * line + k * step]);
      for (Size i = n; i < kStrip; ++i) out[i] = A(0);
    }
  }
}

// Computes the tile at row m and column n, up to edge x edge, of the item whose arrays are a, b and d.
template <class T, class Out, int kBytes>
LT_INLINE void gemm_tile(const Gemm& g, const T* a, const T* b, Out* d, Size edge, Size m, Size n) {
  using A = Arithmetic<T>;
  using R = Tile<A, kBytes>;
  const Size lda = g.lda ? g.lda : (g.transpose_a ? g.M : g.K), ldb = g.ldb ? g.ldb : (g.transpose_b ? g.K : g.N);
  const Size ldd = g.ldd ? g.ldd : g.N;
  const Size rows = g.M - m < edge ? g.M - m : edge, columns = g.N - n < edge ? g.N - n : edge;
  A* const sums = scratch<A>(edge * edge + 2 * edge * kDepth);
  A* const packed_a = sums + edge * edge;
  A* const packed_b = packed_a + edge * kDepth;
  for (Size i = 0; i < edge * edge; ++i) sums[i] = A(0);
  for (Size k = 0; k < g.K; k += kDepth) {
    const Size depth = g.K - k < kDepth ? g.K - k : kDepth;
    if (g.transpose_a) {
      pack<R::kRows>(packed_a, a + k * lda + m, 1, lda, rows, depth);
    } else {
      pack<R::kRows>(packed_a, a + m * lda + k, lda, 1, rows, depth);
    }
    if (g.transpose_b) {
      pack<R::kColumns>(packed_b, b + n * ldb + k, ldb, 1, columns, depth);
    } else {
      pack<R::kColumns>(packed_b, b + k * ldb + n, 1, ldb, columns, depth);
    }
    for (Size j = 0; j < columns; j += R::kColumns) {
      for (Size i = 0; i < rows; i += R::kRows) {
        R::template multiply<true, true>(sums + i * edge + j, edge, packed_a + i * depth, R::kRows,
                                         packed_b + j * depth, R::kColumns, depth);
      }
    }
  }
  const T* const bias = static_cast<const T*>(g.bias_N);
  const Out* const add = static_cast<const Out*>(g.add_MN);
  for (Size i = 0; i < rows; ++i) {
    A* const sum = sums + i * edge;
    Out* const out = d + (m + i) * ldd + n;
    if (bias) {
      for (Size j = 0; j < columns; ++j) sum[j] += load(bias[n + j]);
    }
    if (add) {
      for (Size j = 0; j < columns; ++j) sum[j] += load(add[(m + i) * g.N + n + j]);
    }
    if (g.accumulate) {
      for (Size j = 0; j < columns; ++j) sum[j] += load(out[j]);
    }
    for (Size j = 0; j < columns; ++j) out[j] = store<Out>(sum[j]);
  }
}

template <class T, class Out>
void run(const Gemm& g) {
  const auto tiles = [&g](Size edge) { return ((g.M + edge - 1) / edge) * ((g.N + edge - 1) / edge) * g.batch; };
  const Size edge = tiles(kLargeEdge) < 2 * omp_get_max_threads() ? kSmallEdge : kLargeEdge;
  const Size across = (g.N + edge - 1) / edge, of_item = tiles(edge) / g.batch;
  parallel_items(tiles(edge), [=](Size begin, Size end, auto bytes) LT_VECTOR_BODY {
    for (Size i = begin; i < end; ++i) {
      const Size item = i / of_item, tile = i % of_item;
      gemm_tile<T, Out, bytes>(
          g, static_cast<const T*>(g.a) + item * g.stride_a, static_cast<const T*>(g.b) + item * g.stride_b,
          static_cast<Out*>(g.d) + item * g.stride_d, edge, tile / across * edge, tile % across * edge);
    }
  });
}

}  // namespace

void gemm_loops(const Gemm& g) {
  dispatch_float(g.dtype, [&g]<class T>() {
    if (g.out == g.dtype) {
      run<T, T>(g);
    } else {
      run<T, float>(g);
    }
  });
}

}  // namespace lt::kernels
