// Embedding look-up and its gradient on the CPU. In the backward each row of a table belongs to one thread, which walks
// the rows of dy in order: no two threads write the same row, and the thread count does not change any sum.
#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cpu/map.h"
#include "kernels/elementwise.h"

namespace lt::kernels {

template <>
void embedding_forward(CpuStream, const EmbeddingForward& k) {
  const Size T = k.T, C = k.C, first = k.first;
  const std::int32_t *const ids_M = k.ids_M, *const starts_M = k.starts_M;
  dispatch_float(k.dtype, [&]<class E>() {
    E* const y_MC = static_cast<E*>(k.y_MC);
    const E *const table = static_cast<const E*>(k.table_VC), *const positions = static_cast<const E*>(k.positions_TC);
    parallel_for(k.M, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size m = begin; m < end; ++m) {
        const E* const token = table + static_cast<Size>(ids_M[m]) * C;
        E* const y = y_MC + m * C;
        if (positions) {
          const E* const position = positions + (first + m % T - (starts_M != nullptr ? starts_M[m] : 0)) * C;
#pragma omp simd
          for (Size c = 0; c < C; ++c) y[c] = store<E>(load(token[c]) + load(position[c]));
        } else {
#pragma omp simd
          for (Size c = 0; c < C; ++c) y[c] = token[c];
        }
      }
    });
  });
}

template <>
void embedding_backward(CpuStream stream, const EmbeddingBackward& k) {
  const Size M = k.M, T = k.T, C = k.C, max_T = k.max_T, first = k.first;
  const std::int32_t *const ids_M = k.ids_M, *const starts_M = k.starts_M;
  void *const dtable_VC = k.dtable_VC, *const dpositions_TC = k.dpositions_TC;
  const bool accumulate_positions = k.accumulate_positions;
  if (dtable_VC && !k.accumulate_table) {
    fill_zero(stream, dtable_VC, k.V * C * dtype_bytes(gradient_dtype(k.dtype)));
  }
  dispatch_float(k.dtype, [&]<class E>() {
    using A = Arithmetic<E>;
    const E* const dy = static_cast<const E*>(k.dy_MC);
    if (dtable_VC) {
      // Hash the id to choose its owner: the frequent tokens of a text have neighbouring ids.
      A* const dtable = static_cast<A*>(dtable_VC);
      const Size owners = std::min<Size>(omp_get_max_threads(), M * C / (32 * kGrain) + 1);
      parallel_for(owners, 1, [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size m = 0; m < M; ++m) {
          const Size id = ids_M[m], owner = (static_cast<std::uint32_t>(id) * 2654435769u >> 16) % owners;
          if (owner < begin || owner >= end) continue;
          const E* const x = dy + m * C;
          A* const sum = dtable + id * C;
#pragma omp simd
          for (Size c = 0; c < C; ++c) sum[c] += load(x[c]);
        }
      });
    }
    if (dpositions_TC && starts_M != nullptr) {
      A* const dpositions = static_cast<A*>(dpositions_TC);
      parallel_for(max_T, row_grain(C * (M / T + 1)), [=](Size begin, Size end) LT_VECTOR_BODY {
        if (!accumulate_positions) std::fill(dpositions + begin * C, dpositions + end * C, A(0));
        for (Size m = 0; m < M; ++m) {
          const Size position = m % T - starts_M[m];
          if (position < begin || position >= end) continue;
          const E* const x = dy + m * C;
          A* const sum = dpositions + position * C;
#pragma omp simd
          for (Size c = 0; c < C; ++c) sum[c] += load(x[c]);
        }
      });
    } else if (dpositions_TC) {
      A* const dpositions = static_cast<A*>(dpositions_TC);
      parallel_for(max_T, row_grain(C * (M / T + 1)), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size position = begin; position < end; ++position) {
          A* const sum = dpositions + position * C;
          if (!accumulate_positions) std::fill(sum, sum + C, A(0));
          const Size t = position - first;
          for (Size m = t; t >= 0 && t < T && m < M; m += T) {
            const E* const x = dy + m * C;
#pragma omp simd
            for (Size c = 0; c < C; ++c) sum[c] += load(x[c]);
          }
        }
      });
    }
  });
}

}  // namespace lt::kernels
