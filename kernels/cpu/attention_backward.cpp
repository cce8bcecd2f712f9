// Attention backward. A thread takes one (sequence, key/value head) pair at a time, so one thread sums the gradients of
// a shared key in the order of heads and query blocks. P = exp(scale q k^T - lse) is recomputed in blocks.
// With delta = sum_D(dout * out):  dv = P^T dout,  dS = P * (dout v^T - delta),  dq = scale dS k,  dk = scale dS^T q
// (Dao et al. 2022, algorithm 4).
#include "kernels/cpu/attention_blocks.h"

namespace lt::kernels {
namespace {

template <class T>
struct Arrays {
  T* dqkv;
  const T *dout, *qkv, *out;
  const Arithmetic<T>* lse;
};

template <class T>
LT_INLINE void store_rows(T* y, Size stride, const Arithmetic<T>* x, Size width, Size count, Size D,
                          Arithmetic<T> factor) {
  for (Size i = 0; i < count; ++i) {
#pragma omp simd
    for (Size d = 0; d < D; ++d) y[i * stride + d] = store<T>(factor * x[i * width + d]);
  }
}

// From scores in p and dout v^T in ds, for the keys of one strip: p[key][query] = exp(p - lse), ds = p * (ds - delta).
template <class A, class R>
LT_INLINE void score_gradients(A* p, A* ds, const A* lse, const A* delta, Size columns) {
  for (Size j = 0; j < R::kRows; ++j) {
    for (Size i0 = 0; i0 < columns; i0 += R::kColumns) {
      const Size at = j * kBlock + i0;
#pragma omp simd
      for (Size i = 0; i < R::kColumns; ++i) {
        const A x = fast_exp_negative(p[at + i] - lse[i0 + i]);
        p[at + i] = x;
        ds[at + i] = x * (ds[at + i] - delta[i0 + i]);
      }
    }
  }
}

template <class T, int kBytes>
LT_INLINE void attend_backward(const Arrays<T>& x, const SeenKeys& visible, Size b, Size g, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  using R = Tile<A, kBytes>;
  constexpr A kHidden = -std::numeric_limits<A>::infinity();
  const AttentionShape& s = visible.shape;
  const Size T_ = s.T, D = s.D, Tp = round_up(T_, kBlock), Dp = round_up(D, R::kColumns), row = s.row();
  A* const k = scratch<A>(4 * Tp * Dp + 6 * kBlock * Dp + R::kRows * kBlock + kBlock * kBlock + 2 * kBlock);
  A* const v = k + Tp * Dp;
  A* const dk = v + Tp * Dp;
  A* const dv = dk + Tp * Dp;
  A* const q = dv + Tp * Dp;
  A* const qt = q + kBlock * Dp;
  A* const dout = qt + kBlock * Dp;
  A* const dout_t = dout + kBlock * Dp;
  A* const dq = dout_t + kBlock * Dp;
  A* const out = dq + kBlock * Dp;
  A* const p = out + kBlock * Dp;  // one strip
  A* const ds = p + R::kRows * kBlock;
  A* const lse = ds + kBlock * kBlock;
  A* const delta = lse + kBlock;

  const Size first = b * T_ * row, k_at = first + (s.H + g) * D, v_at = k_at + s.G * D;
  const Size first_head = g * s.H / s.G, last_head = (g + 1) * s.H / s.G - 1, out_row = s.H * D;
  // Prefetches rows [begin, end) of head h, and of the keys and values if h is the first head.
  const auto fetch = [=](Size h, Size begin, Size end) LT_VECTOR_BODY {
    const Size out_at = (b * T_ * s.H + h) * D;
    prefetch_rows(x.qkv + first + h * D, row, begin, end, D);
    prefetch_rows(x.dout + out_at, out_row, begin, end, D);
    prefetch_rows(x.out + out_at, out_row, begin, end, D);
    prefetch_rows<true>(x.dqkv + first + h * D, row, begin, end, D);
    if (h == first_head) {
      prefetch_rows(x.qkv + k_at, row, begin, end, D);
      prefetch_rows(x.qkv + v_at, row, begin, end, D);
    }
  };
  for (Size i = 0; i < 2 * Tp * Dp; ++i) dk[i] = 0;  // clears dv too
  for (Size h = first_head; h <= last_head; ++h) {
    for (Size q0 = 0; q0 < T_; q0 += kBlock) {
      const Size queries = T_ - q0 < kBlock ? T_ - q0 : kBlock, rows = round_up(queries, R::kRows);
      const Size columns = round_up(queries, R::kColumns);
      const Size q_at = first + q0 * row + h * D, out_at = ((b * T_ + q0) * s.H + h) * D;
      const bool last = q0 + kBlock >= T_;  // last block of this head
      const Size next_head = last ? h + 1 : h, next_q0 = last ? 0 : q0 + kBlock;
      if (h == first_head) {
        pack_rows(k + q0 * Dp, kBlock, Dp, x.qkv + k_at + q0 * row, row, queries, D, A(1));
        pack_rows(v + q0 * Dp, kBlock, Dp, x.qkv + v_at + q0 * row, row, queries, D, A(1));
      }
      pack_rows(q, kBlock, Dp, x.qkv + q_at, row, queries, D, scale);
      pack_rows(dout, kBlock, Dp, x.dout + out_at, out_row, queries, D, A(1));
      pack_rows(out, kBlock, Dp, x.out + out_at, out_row, queries, D, A(1));
      transpose_rows<A, kBytes>(qt, q, Dp, D);
      transpose_rows<A, kBytes>(dout_t, dout, Dp, D);
      for (Size i = 0; i < kBlock; ++i) {
        A sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Size d = 0; d < Dp; ++d) sum += out[i * Dp + d] * dout[i * Dp + d];
        delta[i] = sum;
        lse[i] = i < queries ? x.lse[(b * s.H + h) * T_ + q0 + i] : A(0);
      }
      for (Size i = 0; i < kBlock * Dp; ++i) dq[i] = 0;
      const Size first_k0 = visible.first_seen(q0) / kBlock * kBlock;
      for (Size k0 = first_k0; k0 <= q0; k0 += kBlock) {
        const bool diagonal = k0 == q0;
        for (Size j0 = 0; j0 < (diagonal ? rows : kBlock); j0 += R::kRows) {
          const Size i0 = first_query<R>(diagonal, j0), key = (k0 + j0) * Dp;
          A* const ds_j = ds + j0 * kBlock;
          R::template multiply_strip<false>(p + i0, kBlock, k + key, Dp, qt + i0, kBlock, columns - i0, D);
          R::template multiply_strip<false>(ds_j + i0, kBlock, v + key, Dp, dout_t + i0, kBlock, columns - i0, D);
          hide_past<A, R>(p, visible, q0, k0, j0, kHidden);
          if (diagonal) hide_future<A, R>(p, j0, kHidden);
          if (k0 == first_k0 && next_head <= last_head) {
            const Size begin = next_q0 + j0, end = begin + R::kRows;
            fetch(next_head, begin, end < T_ ? end : T_);
          }
          score_gradients<A, R>(p + i0, ds_j + i0, lse + i0, delta + i0, columns - i0);
          R::template multiply_strip<true>(dv + key, Dp, p + i0, kBlock, dout + i0 * Dp, Dp, Dp, rows - i0);
          R::template multiply_strip<true>(dk + key, Dp, ds_j + i0, kBlock, q + i0 * Dp, Dp, Dp, rows - i0);
        }
        for (Size i0 = 0; i0 < rows; i0 += R::kRows) {
          R::template multiply_strip<true, true>(dq + i0 * Dp, Dp, ds + i0, kBlock, k + k0 * Dp, Dp, Dp,
                                                 diagonal ? i0 + R::kRows : kBlock);
        }
      }
      store_rows(x.dqkv + q_at, row, dq, Dp, queries, D, scale);
    }
  }
  store_rows(x.dqkv + k_at, row, dk, Dp, T_, D, A(1));  // q was packed times `scale`
  store_rows(x.dqkv + v_at, row, dv, Dp, T_, D, A(1));
}

}  // namespace

template <>
void attention_backward(CpuStream, const AttentionBackward& call) {
  dispatch_float(call.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const Arrays<T> arrays{static_cast<T*>(call.dqkv), static_cast<const T*>(call.dout_BTHD),
                           static_cast<const T*>(call.qkv), static_cast<const T*>(call.out_BTHD),
                           static_cast<const A*>(call.lse_BHT)};
    const AttentionShape s = call.shape;
    const A scale = static_cast<A>(call.scale);
    const std::int32_t* const starts = call.starts_BT;
    parallel_items(s.B * s.G, [=](Size begin, Size end, auto bytes) LT_VECTOR_BODY {
      for (Size i = begin; i < end; ++i) {
        const Size b = i / s.G;
        attend_backward<T, bytes>(arrays, seen_keys(s, starts, b), b, i % s.G, scale);
      }
    });
  });
}

}  // namespace lt::kernels
