// Attention of new queries against a cache of keys and values. Used for generation, which has few queries at a time.
#include <cstring>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/rope.h"

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

Size past_of(const AttentionCached& call, Size b) { return call.past_B != nullptr ? call.past_B[b] : call.past; }

// Rotates the new rows and appends their keys and values to the cache.
void append(const AttentionCached& call) {
  const AttentionShape& s = call.shape;
  const Size bytes = dtype_bytes(call.dtype), kv = s.G * s.D * bytes, row = s.row() * bytes;
  auto *const qkv = static_cast<std::byte*>(call.qkv), *const k = static_cast<std::byte*>(call.k_cache),
              *const v = static_cast<std::byte*>(call.v_cache);
  const Size at_once = call.past_B != nullptr ? 1 : s.B;  // sequences at the same position
  for (Size b = 0; call.rope_base > 0 && b < s.B; b += at_once) {
    rope(CpuStream{}, {.dtype = call.dtype,
                       .B = at_once,
                       .T = s.T,
                       .row = s.row(),
                       .heads = s.H + s.G,
                       .D = s.D,
                       .y_BTrow = qkv + b * s.T * row,
                       .x_BTrow = qkv + b * s.T * row,
                       .base = call.rope_base,
                       .first = past_of(call, b),
                       .scaling = call.rope_scaling});
  }
  for (Size i = 0; i < s.B * s.T; ++i) {
    const Size b = i / s.T, to = (b * call.capacity + past_of(call, b) + i % s.T) * kv;
    const std::byte* const keys = qkv + i * row + s.H * s.D * bytes;
    std::memcpy(k + to, keys, static_cast<std::size_t>(kv));
    std::memcpy(v + to, keys + kv, static_cast<std::size_t>(kv));
  }
}

}  // namespace

template <>
void attention_cached(CpuStream, const AttentionCached& call) {
  append(call);
  dispatch_float(call.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const AttentionShape s = call.shape;
    const Size q_row = s.row(), capacity = call.capacity, shared_past = call.past;
    const std::int32_t* const past_B = call.past_B;
    const A scale = static_cast<A>(call.scale);
    T* const out = static_cast<T*>(call.out_BTHD);
    const T* const queries = static_cast<const T*>(call.qkv);
    const T* const keys = static_cast<const T*>(call.k_cache);
    const T* const values = static_cast<const T*>(call.v_cache);
    parallel_items(s.B * s.H, [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size i = begin; i < end; ++i) {
        const Size b = i / s.H, h = i % s.H, head = (b * capacity * s.G + h * s.G / s.H) * s.D;
        const Size past = past_B != nullptr ? past_B[b] : shared_past;
        A* const sums = scratch<A>(past + s.T + s.D);
        A* const scores = sums + s.D;
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
