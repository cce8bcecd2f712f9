// Attention of new queries against a cache of keys and values. Made for generation, which has few queries at a time.
#include "kernels/cpu/attention_blocks.h"

namespace lt::kernels {
namespace {

// One query against `keys` keys; k and v point to the first, and their rows are `stride` apart.
template <class T>
LT_INLINE void attend_one(T* out, const T* q, const T* k, const T* v, Size stride, Size keys, Size D,
                          Arithmetic<T> scale, Arithmetic<T>* scores, Arithmetic<T>* sums) {
  using A = Arithmetic<T>;
  A max = -std::numeric_limits<A>::infinity();
  for (Size j = 0; j < keys; ++j) {
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Size d = 0; d < D; ++d) sum += load(q[d]) * load(k[j * stride + d]);
    scores[j] = scale * sum;
    max = scores[j] > max ? scores[j] : max;
  }
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (Size j = 0; j < keys; ++j) {
    scores[j] = fast_exp_negative(scores[j] - max);
    total += scores[j];
  }
  for (Size d = 0; d < D; ++d) sums[d] = 0;
  for (Size j = 0; j < keys; ++j) {
    const A p = scores[j];
#pragma omp simd
    for (Size d = 0; d < D; ++d) sums[d] += p * load(v[j * stride + d]);
  }
  for (Size d = 0; d < D; ++d) out[d] = store<T>(sums[d] / total);
}

}  // namespace

template <>
void attention_cached(CpuStream, const AttentionCached& call) {
  dispatch_float(call.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const AttentionShape s = call.shape;
    const Size q_row = call.q_row, capacity = call.capacity, past = call.past;
    const A scale = static_cast<A>(call.scale);
    T* const out = static_cast<T*>(call.out_BTHD);
    const T* const queries = static_cast<const T*>(call.q);
    const T* const keys = static_cast<const T*>(call.k_cache);
    const T* const values = static_cast<const T*>(call.v_cache);
    parallel_items(s.B * s.H, [=](Size begin, Size end) LT_VECTOR_BODY {
      A* const sums = scratch<A>(past + s.T + s.D);
      A* const scores = sums + s.D;
      for (Size i = begin; i < end; ++i) {
        const Size b = i / s.H, h = i % s.H, head = (b * capacity * s.G + h * s.G / s.H) * s.D;
        for (Size t = 0; t < s.T; ++t) {
          const Size at = b * s.T + t, first = s.first_seen(past + t), seen = head + first * s.G * s.D;
          attend_one(out + (at * s.H + h) * s.D, queries + at * q_row + h * s.D, keys + seen, values + seen, s.G * s.D,
                     past + t + 1 - first, s.D, scale, scores, sums);
        }
      }
    });
  });
}

}  // namespace lt::kernels
