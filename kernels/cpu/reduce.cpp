// Sums on the CPU. The shape alone fixes the blocks that are summed; threads only decide who computes which block.
#include "kernels/reduce.h"

#include <type_traits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/row_blocks.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

template <class Out, class T>
void add_rows(Out* out_C, const T* x_RC, Size R, Size C, bool accumulate) {
  using A = Arithmetic<T>;
  const RowBlocks blocks(R);
  A* const partial = scratch<A>(blocks.count * C);
  parallel_for(blocks.count, blocks.grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size block = begin; block < end; ++block) {
      A* const sum = partial + block * C;
      for (Size c = 0; c < C; ++c) sum[c] = A(0);
      const Size last = (block + 1) * blocks.rows < R ? (block + 1) * blocks.rows : R;
      Size r = block * blocks.rows;
      for (; r + 4 <= last; r += 4) {
        const T *const x0 = x_RC + r * C, *const x1 = x0 + C, *const x2 = x1 + C, *const x3 = x2 + C;
#pragma omp simd
        for (Size c = 0; c < C; ++c) sum[c] += (load(x0[c]) + load(x1[c])) + (load(x2[c]) + load(x3[c]));
      }
      for (; r < last; ++r) {
        const T* const x = x_RC + r * C;
#pragma omp simd
        for (Size c = 0; c < C; ++c) sum[c] += load(x[c]);
      }
    }
  });
  combine_blocks(out_C, partial, C, blocks.count, C, accumulate);
}

// Sums each contiguous row, in blocks of kLongestRun elements a lane.
template <class Out, class T>
void add_within_rows(Out* out_O, const T* x_OR, Size O, Size R, bool accumulate) {
  using A = Arithmetic<T>;
  parallel_for(O, row_grain(R), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size o = begin; o < end; ++o) {
      constexpr Size kBlock = kLongestRun * kLanes;
      double total = 0;
      for (Size r0 = 0; r0 < R; r0 += kBlock) {
        const T* const x = x_OR + o * R + r0;
        A lanes[kLanes] = {};
        for_lanes(kBlock < R - r0 ? kBlock : R - r0,
                  [&](Size r, Size lane) LT_VECTOR_BODY { lanes[lane] += load(x[r]); });
        total += static_cast<double>(fold(lanes));
      }
      const A sum = static_cast<A>(total);
      out_O[o] = store<Out>(accumulate ? load(out_O[o]) + sum : sum);
    }
  });
}

template <class Out, class T>
void add_middle(Out* out_OI, const T* x_ORI, Size O, Size R, Size I, bool accumulate) {
  using A = Arithmetic<T>;
  constexpr Size kChunk = 256;
  const Size chunks = (I + kChunk - 1) / kChunk;
  parallel_for(O * chunks, row_grain(R * kChunk), [=](Size begin, Size end) LT_VECTOR_BODY {
    A sum[kChunk];
    double total[kChunk];
    for (Size item = begin; item < end; ++item) {
      const Size o = item / chunks, i0 = item % chunks * kChunk, n = kChunk < I - i0 ? kChunk : I - i0;
      const auto add_run = [&](Size first, Size last) LT_VECTOR_BODY {
        for (Size k = 0; k < n; ++k) sum[k] = A(0);
        for (Size r = first; r < last; ++r) {
          const T* const x = x_ORI + (o * R + r) * I + i0;
#pragma omp simd
          for (Size k = 0; k < n; ++k) sum[k] += load(x[k]);
        }
      };
      add_run(0, kLongestRun < R ? kLongestRun : R);
      if (R > kLongestRun) {
        for (Size k = 0; k < n; ++k) total[k] = static_cast<double>(sum[k]);
        for (Size r = kLongestRun; r < R; r += kLongestRun) {
          add_run(r, kLongestRun < R - r ? r + kLongestRun : R);
          for (Size k = 0; k < n; ++k) total[k] += static_cast<double>(sum[k]);
        }
        for (Size k = 0; k < n; ++k) sum[k] = static_cast<A>(total[k]);
      }
      Out* const out = out_OI + o * I + i0;
#pragma omp simd
      for (Size k = 0; k < n; ++k) out[k] = store<Out>(accumulate ? load(out[k]) + sum[k] : sum[k]);
    }
  });
}

}  // namespace

template <>
void sum_squares(CpuStream, DType dtype, double* sum, const void* x_N, Size N, double* partials, Size piece) {
  const Size blocks = sum_blocks(N, piece);
  if (piece == 0) piece = N;
  const Size blocks_of_piece = sum_blocks(piece);
  double* const partial = partials != nullptr ? partials : scratch<double>(blocks);
  dispatch_float(dtype, [&]<class T>() {
    parallel_for(blocks, kGrain / kSumBlock, [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size block = begin; block < end; ++block) {
        const Size first = block % blocks_of_piece * kSumBlock, left = piece - first;
        const T* const x = static_cast<const T*>(x_N) + block / blocks_of_piece * piece + first;
        const Size n = kSumBlock < left ? kSumBlock : left;
        double squares[kLanes] = {};
        for_lanes(n, [&](Size i, Size lane) LT_VECTOR_BODY {
          squares[lane] += static_cast<double>(load(x[i])) * static_cast<double>(load(x[i]));
        });
        partial[block] = fold(squares);
      }
    });
  });
  // The number of pieces is a power of two, so adding neighbours repeatedly is the tree.
  double sums[kMostPieces] = {};
  Size pieces = piece == 0 ? 0 : N / piece;
  for (Size i = 0; i < pieces; ++i) {
    for (Size block = 0; block < blocks_of_piece; ++block) sums[i] += partial[i * blocks_of_piece + block];
  }
  for (; pieces > 1; pieces /= 2) {
    for (Size i = 0; i < pieces / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  *sum = sums[0];
}

template <>
void sum_middle(CpuStream, DType out_dtype, void* out_OI, DType dtype, const void* x_ORI, const MiddleShape& m,
                bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const T* const x = static_cast<const T*>(x_ORI);
    dispatch_output<T>("sum_middle", out_dtype, out_OI, dtype, [&](auto* out) {
      if (m.I == 1) return add_within_rows(out, x, m.O, m.R, accumulate);
      if (m.O == 1) return add_rows(out, x, m.R, m.I, accumulate);
      add_middle(out, x, m.O, m.R, m.I, accumulate);
    });
  });
}

template <>
void cumulative_sum(CpuStream, DType dtype, void* y_ORI, const void* x_ORI, const MiddleShape& m, bool reverse,
                    bool accumulate) {
  const Size R = m.R, I = m.I;
  dispatch_float(dtype, [&]<class T>() {
    T* const y = static_cast<T*>(y_ORI);
    const T* const x = static_cast<const T*>(x_ORI);
    parallel_for(m.O * I, row_grain(R), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size column = begin; column < end; ++column) {
        Arithmetic<T> sum = 0;
        for (Size r = 0; r < R; ++r) {
          const Size at = (column / I * R + (reverse ? R - 1 - r : r)) * I + column % I;
          sum += load(x[at]);
          y[at] = store<T>(accumulate ? load(y[at]) + sum : sum);
        }
      }
    });
  });
}

template <>
void sum_rows(CpuStream, DType out_dtype, void* out_C, DType dtype, const void* x_RC, Size R, Size C, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    dispatch_output<T>("sum_rows", out_dtype, out_C, dtype,
                       [&](auto* out) { add_rows(out, static_cast<const T*>(x_RC), R, C, accumulate); });
  });
}

constexpr int kTreeLevels = 32;  // enough for any `int` of ranks

template <>
void sum_ranks(CpuStream stream, DType y_dtype, void* y_N, DType x_dtype, const void* const* x, int ranks, Size N,
               std::span<const void* const> addends, double* squares, double* partials, Size blocks_before) {
  if (blocks_before != 0) throw InternalError("kernels", "sum_ranks: expected all of y on the CPU, got a slice");
  dispatch_reduced(y_dtype, [&]<class Y>() {
    dispatch_reduced(x_dtype, [&]<class X>() {
      using A = Arithmetic<X>;
      parallel_for(N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
        constexpr Size kChunk = 256;
        A sums[kTreeLevels][kChunk];  // of subtrees, each larger than the next
        A* const sum = sums[0];
        for (Size i = begin; i < end; i += kChunk) {
          const Size n = kChunk < end - i ? kChunk : end - i;
          const auto join_last_two = [&](int count) LT_VECTOR_BODY {
            A *const left = sums[count - 2], *const right = sums[count - 1];
#pragma omp simd
            for (Size k = 0; k < n; ++k) left[k] += right[k];
          };
          int trees = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            const X* const part = static_cast<const X*>(x[rank]) + i;
            A* const leaf = sums[trees++];
            for (Size k = 0; k < n; ++k) leaf[k] = load(part[k]);
            for (int done = rank + 1; done % 2 == 0; done /= 2) join_last_two(trees--);
          }
          while (trees > 1) join_last_two(trees--);
          std::common_type_t<A, Arithmetic<Y>> total[kChunk];
          for (Size k = 0; k < n; ++k) total[k] = sum[k];
          for (const void* const addend : addends) {
            const Y* const values = static_cast<const Y*>(addend) + i;
#pragma omp simd
            for (Size k = 0; k < n; ++k) total[k] += load(values[k]);
          }
          Y* const y = static_cast<Y*>(y_N) + i;
#pragma omp simd
          for (Size k = 0; k < n; ++k) y[k] = store<Y>(static_cast<Arithmetic<Y>>(total[k]));
        }
      });
    });
  });
  if (squares != nullptr) sum_squares(stream, y_dtype, squares, y_N, N, partials);
}

template <>
void sum_all(CpuStream, DType dtype, void* out, const void* x_N, Size N, double scale, const float* weight) {
  dispatch_float(dtype, [&]<class T>() {
    double sum = 0;
    for (Size i = 0; i < N; ++i) sum += static_cast<double>(load(static_cast<const T*>(x_N)[i]));
    const double factor = weight != nullptr ? scale * static_cast<double>(*weight) : scale;
    *static_cast<T*>(out) = store<T>(static_cast<Arithmetic<T>>(factor * sum));
  });
}

}  // namespace lt::kernels
