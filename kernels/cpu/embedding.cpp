// Embedding look-up and its gradient on the CPU. Backward, each row of a table belongs to one thread, which walks the
// rows of dy in order: no two threads write one row, and no thread count changes a sum.
#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cpu/map.h"
#include "kernels/elementwise.h"

namespace lt::kernels {

template <>
void embedding_forward(CpuStream, DType dtype, void* y_MC, const void* table_VC, const void* positions_TC,
                       const std::int32_t* ids_M, Size M, Size T, Size C, Size first) {
  dispatch_float(dtype, [&]<class E>() {
    const E *const table = static_cast<const E*>(table_VC), *const positions = static_cast<const E*>(positions_TC);
    parallel_for(M, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size m = begin; m < end; ++m) {
        const E* const token = table + static_cast<Size>(ids_M[m]) * C;
        E* const y = static_cast<E*>(y_MC) + m * C;
        if (positions) {
          const E* const position = positions + (first + m % T) * C;
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
void embedding_backward(CpuStream stream, DType dtype, void* dtable_VC, bool accumulate_table, void* dpositions_TC,
                        bool accumulate_positions, const void* dy_MC, const std::int32_t* ids_M, Size M, Size T, Size C,
                        Size V, Size max_T) {
  if (dtable_VC && !accumulate_table) fill_zero(stream, dtable_VC, V * C * dtype_bytes(gradient_dtype(dtype)));
  dispatch_float(dtype, [&]<class E>() {
    using A = Arithmetic<E>;
    const E* const dy = static_cast<const E*>(dy_MC);
    if (dtable_VC) {
      // The owner of an id is taken from its scrambled bits: the frequent tokens of a text are neighbours.
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
    if (dpositions_TC) {
      A* const dpositions = static_cast<A*>(dpositions_TC);
      parallel_for(max_T, row_grain(C * (M / T + 1)), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size t = begin; t < end; ++t) {
          A* const sum = dpositions + t * C;
          if (!accumulate_positions) std::fill(sum, sum + C, A(0));
          for (Size m = t; t < T && m < M; m += T) {
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
