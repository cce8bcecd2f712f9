// Attention forward. A thread takes one (sequence, head) pair at a time. A block of queries visits the blocks of keys
// in order with a running softmax, so the order of the sums depends only on the shape.
#include "kernels/cpu/attention_blocks.h"

namespace lt::kernels {
namespace {

// Turns the scores s[key][query] of `keys` keys into exp(score - the query's running maximum), and updates the running
// maxima and sums of kQueries queries. `rescale` receives the factor for earlier sums.
template <Size kQueries, class A>
LT_INLINE void softmax_step(A* s, Size keys, A* max, A* sum, A* rescale) {
  A new_max[kQueries], new_sum[kQueries];
  for (Size i = 0; i < kQueries; ++i) new_max[i] = max[i], new_sum[i] = 0;
  for (Size j = 0; j < keys; ++j) {
#pragma omp simd
    for (Size i = 0; i < kQueries; ++i) {
      const A score = s[j * kBlock + i];
      new_max[i] = score > new_max[i] ? score : new_max[i];
    }
  }
  for (Size j = 0; j < keys; ++j) {
#pragma omp simd
    for (Size i = 0; i < kQueries; ++i) {
      const A p = fast_exp_negative(s[j * kBlock + i] - new_max[i]);
      s[j * kBlock + i] = p;
      new_sum[i] += p;
    }
  }
#pragma omp simd
  for (Size i = 0; i < kQueries; ++i) {
    rescale[i] = fast_exp_negative(max[i] - new_max[i]);
    sum[i] = sum[i] * rescale[i] + new_sum[i];
    max[i] = new_max[i];
  }
}

template <class T, int kBytes>
LT_INLINE void attend(T* out_TD, Arithmetic<T>* lse_T, const T* q_TD, const T* k_TD, const T* v_TD,
                      const SeenKeys& visible, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  using R = Tile<A, kBytes>;
  constexpr A kHidden = -std::numeric_limits<A>::infinity();
  // Finite instead of -inf: a query may see no key of its first block, and exp(-inf - -inf) is NaN. Rescaling by the
  // next block's maximum discards such a block.
  constexpr A kPast = std::numeric_limits<A>::lowest() / 2;
  const AttentionShape& shape = visible.shape;
  const Size T_ = shape.T, D = shape.D, row = shape.row(), out_row = shape.H * D;
  const Size Tp = round_up(T_, kBlock), Dp = round_up(D, R::kColumns);
  A* const k = scratch<A>(2 * Tp * Dp + 3 * kBlock * Dp + kBlock * kBlock);
  A* const v = k + Tp * Dp;
  A* const q = v + Tp * Dp;
  A* const qt = q + kBlock * Dp;
  A* const out = qt + kBlock * Dp;
  A* const s = out + kBlock * Dp;
  alignas(64) A max[kBlock], sum[kBlock], rescale[kBlock];
  const auto fetch = [=](Size begin, Size end) LT_VECTOR_BODY {
    for (const T* const x : {q_TD, k_TD, v_TD}) prefetch_rows(x, row, begin, end < T_ ? end : T_, D);
  };
  for (Size q0 = 0; q0 < T_; q0 += kBlock) {
    const Size queries = T_ - q0 < kBlock ? T_ - q0 : kBlock, rows = round_up(queries, R::kRows);
    const Size columns = round_up(queries, R::kColumns);
    pack_rows(k + q0 * Dp, kBlock, Dp, k_TD + q0 * row, row, queries, D, A(1));
    pack_rows(v + q0 * Dp, kBlock, Dp, v_TD + q0 * row, row, queries, D, A(1));
    pack_rows(q, kBlock, Dp, q_TD + q0 * row, row, queries, D, scale);
    transpose_rows<A, kBytes>(qt, q, Dp, D);
    for (Size i = 0; i < kBlock * Dp; ++i) out[i] = 0;
    for (Size i = 0; i < kBlock; ++i) max[i] = kHidden, sum[i] = 0;
    const Size first = visible.first_seen(q0) / kBlock * kBlock;
    for (Size k0 = first; k0 <= q0; k0 += kBlock) {
      const bool diagonal = k0 == q0;
      for (Size j0 = 0; j0 < (diagonal ? rows : kBlock); j0 += R::kRows) {
        const Size i0 = first_query<R>(diagonal, j0);
        R::template multiply_strip<false>(s + j0 * kBlock + i0, kBlock, k + (k0 + j0) * Dp, Dp, qt + i0, kBlock,
                                          columns - i0, D);
        hide_past<A, R>(s + j0 * kBlock, visible, q0, k0, j0, kPast);
        if (diagonal) hide_future<A, R>(s + j0 * kBlock, j0, kHidden);
        if (k0 == first) fetch(q0 + kBlock + j0, q0 + kBlock + j0 + R::kRows);
      }
      for (Size i0 = 0; i0 < columns; i0 += R::kColumns) {
        const Size seen = i0 + R::kColumns < rows ? i0 + R::kColumns : rows;
        softmax_step<R::kColumns>(s + i0, diagonal ? seen : kBlock, max + i0, sum + i0, rescale + i0);
      }
      for (Size i0 = 0; i0 < rows; i0 += R::kRows) {
        for (Size i = i0; k0 > first && i < i0 + R::kRows; ++i) {
#pragma omp simd
          for (Size d = 0; d < Dp; ++d) out[i * Dp + d] *= rescale[i];
        }
        R::template multiply_strip<true, true>(out + i0 * Dp, Dp, s + i0, kBlock, v + k0 * Dp, Dp, Dp,
                                               diagonal ? i0 + R::kRows : kBlock);
      }
    }
    for (Size i = 0; i < queries; ++i) {
      const A norm = A(1) / sum[i];
      T* const y = out_TD + (q0 + i) * out_row;
#pragma omp simd
      for (Size d = 0; d < D; ++d) y[d] = store<T>(out[i * Dp + d] * norm);
      lse_T[q0 + i] = max[i] + std::log(sum[i]);
    }
  }
}

}  // namespace

template <>
void attention_forward(CpuStream, const AttentionForward& call) {
  dispatch_float(call.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const AttentionShape s = call.shape;
    const A scale = static_cast<A>(call.scale);
    T* const out = static_cast<T*>(call.out_BTHD);
    A* const lse = static_cast<A*>(call.lse_BHT);
    const T* const rows = static_cast<const T*>(call.qkv);
    const std::int32_t* const starts = call.starts_BT;
    parallel_items(s.B * s.H, [=](Size begin, Size end, auto bytes) LT_VECTOR_BODY {
      for (Size i = begin; i < end; ++i) {
        const Size b = i / s.H, h = i % s.H, g = h * s.G / s.H;
        const T* const sequence = rows + b * s.T * s.row();
        attend<T, bytes>(out + (b * s.T * s.H + h) * s.D, lse + i * s.T, sequence + h * s.D, sequence + (s.H + g) * s.D,
                         sequence + (s.H + s.G + g) * s.D, seen_keys(s, starts, b), scale);
      }
    });
  });
}

}  // namespace lt::kernels
