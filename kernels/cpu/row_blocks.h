// Sums over rows in fixed blocks, so the order of additions depends only on the shape: one thread sums each block in
// row order, then the blocks' sums are added in block order, in f64 if there are more than kMost.
#pragma once

#include "kernels/cpu/map.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reduce.h"

namespace lt::kernels {

struct RowBlocks {
  static constexpr Size kMost = 64, kLeastRows = 16;
  // The most rows of a block. There are more than kMost blocks only if R rows need them. add_rows() adds four rows at a
  // time, so a sum has kLongestRun terms.
  static constexpr Size kMostRows = 4 * kLongestRun;

  Size rows, count;  // rows of a block (the last may be shorter), number of blocks

  explicit RowBlocks(Size R) {
    const Size most = (R + kLeastRows - 1) / kLeastRows, wanted = most < kMost ? most : kMost;
    rows = wanted > 0 ? (R + wanted - 1) / wanted : 1;
    if (rows > kMostRows) rows = kMostRows;
    count = (R + rows - 1) / rows;
  }

  // Returns the number of blocks, of rows of C elements, that justify waking a thread.
  Size grain(Size C) const { return (row_grain(C) + rows - 1) / rows; }
};

// out_C (+)= the sum of `count` rows of C partial sums. The rows are `stride` elements apart.
template <class Out, class A>
void combine_blocks(Out* out_C, const A* partial, Size stride, Size count, Size C, bool accumulate) {
  dispatch_flag(count > RowBlocks::kMost, [&](auto many) {
    using Sum = std::conditional_t<many.value, double, A>;
    parallel_for(C, kGrain / (count + 1), [=](Size begin, Size end) LT_VECTOR_BODY {
      constexpr Size kChunk = 256;
      Sum sum[kChunk];
      for (Size c = begin; c < end; c += kChunk) {
        const Size n = kChunk < end - c ? kChunk : end - c;
        for (Size k = 0; k < n; ++k) sum[k] = Sum(0);
        for (Size b = 0; b < count; ++b) {
          const A* const row = partial + b * stride + c;
#pragma omp simd
          for (Size k = 0; k < n; ++k) sum[k] += static_cast<Sum>(row[k]);
        }
        Out* const out = out_C + c;
#pragma omp simd
        for (Size k = 0; k < n; ++k) {
          const A total = static_cast<A>(sum[k]);
          out[k] = store<Out>(static_cast<Arithmetic<Out>>(accumulate ? load(out[k]) + total : total));
        }
      }
    });
  });
}

}  // namespace lt::kernels
