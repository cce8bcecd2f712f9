// Attention of new queries against a cache of keys and values, for generation. A whole prompt runs on training's
// attention, one token on attention_decode.h. Otherwise a block takes one query of one head. Each of its warps takes
// four keys of every 32, with its own running softmax (Milakov & Gimelshein 2018); the sums of the warps are joined in
// order.
#include "kernels/attention_options.h"
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_rotation.cuh"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/limits.h"

namespace lt::kernels {
namespace {

using tile::exponential;
using tile::hidden_score;

constexpr int kMostPairs = 128;  // of the largest head
constexpr int kWarps = kThreads / 32;
constexpr int kKeys = 4;  // keys per warp at a time, so that their loads overlap

template <class T>
struct CachedArrays {
  T* out_BTHD;
  const T *q, *k_cache, *v_cache;
  Size q_row, capacity, past;
  const std::int32_t* past_B;

  __device__ Size past_of(Size b) const { return past_B != nullptr ? past_B[b] : past; }
};

// A block takes a new token: rotates its queries and keys in place, and copies its keys and values to the cache.
template <class T>
__global__ void append_kernel(T* qkv, T* k_cache, T* v_cache, CachedArrays<T> x, AttentionShape s, Rotation rotation) {
  using A = Arithmetic<T>;
  __shared__ A cosines[kMostPairs], sines[kMostPairs];
  const Size b = blockIdx.x / s.T, t = blockIdx.x % s.T, kv = s.G * s.D, half = s.D / 2;
  const Size position = x.past_of(b) + t, to = (b * x.capacity + position) * kv;
  T* const row = qkv + blockIdx.x * s.row();
  if (rotation.base > 0) {
    for (Size d = threadIdx.x; d < half; d += blockDim.x) rotation.angle(position, d, s.D, cosines[d], sines[d]);
    __syncthreads();
    for (Size i = threadIdx.x; i < (s.H + s.G) * half; i += blockDim.x) {
      const Size d = i % half;
      T *const low = row + i / half * s.D + d, *const high = low + half;
      const A u = load(*low), v = load(*high);
      *low = store<T>(u * cosines[d] - v * sines[d]), *high = store<T>(v * cosines[d] + u * sines[d]);
    }
    __syncthreads();
  }
  const T* const keys = row + s.H * s.D;
  for (Size i = threadIdx.x; i < kv; i += blockDim.x) k_cache[to + i] = keys[i], v_cache[to + i] = keys[kv + i];
}

// Each lane holds kPer channels: lane, lane + 32, ...
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads) cached_kernel(CachedArrays<T> x, AttentionShape s, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  __shared__ A maxima[kWarps], sums[kWarps], outs[kWarps][32 * kPer];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Size h = blockIdx.x % s.H, at = blockIdx.x / s.H, b = at / s.T, keys = x.past_of(b) + at % s.T + 1;
  const Size first = s.first_seen(keys - 1);
  const Size row = s.G * s.D, head = b * x.capacity * row + h * s.G / s.H * s.D;

  A q[kPer], out[kPer], max = hidden_score<A>(), sum = 0;
#pragma unroll
  for (int i = 0; i < kPer; ++i) {
    const int d = lane + 32 * i;
    q[i] = d < s.D ? scale * static_cast<A>(x.q[at * x.q_row + h * s.D + d]) : A(0), out[i] = 0;
  }
  for (Size k0 = first + warp * kKeys; k0 < keys; k0 += kWarps * kKeys) {
    A score[kKeys];
    A highest = max;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      score[j] = 0;
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        const int d = lane + 32 * i;
        if (k0 + j < keys && d < s.D) score[j] += q[i] * static_cast<A>(x.k_cache[head + (k0 + j) * row + d]);
      }
    }
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
#pragma unroll
      for (int k = 16; k > 0; k /= 2) score[j] += __shfl_xor_sync(0xffffffffu, score[j], k);
      if (k0 + j >= keys) score[j] = hidden_score<A>();
      highest = score[j] > highest ? score[j] : highest;
    }
    const A rescale = exponential(max - highest);
    max = highest, sum *= rescale;
#pragma unroll
    for (int i = 0; i < kPer; ++i) out[i] *= rescale;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const A p = exponential(score[j] - highest);
      sum += p;
#pragma unroll
      for (int i = 0; i < kPer; ++i) {
        const int d = lane + 32 * i;
        if (k0 + j < keys && d < s.D) out[i] += p * static_cast<A>(x.v_cache[head + (k0 + j) * row + d]);
      }
    }
  }

  if (lane == 0) maxima[warp] = max, sums[warp] = sum;
#pragma unroll
  for (int i = 0; i < kPer; ++i) outs[warp][lane + 32 * i] = out[i];
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < s.D; d += kThreads) {
    A highest = maxima[0];  // the first warp always has a key
    for (int w = 1; w < kWarps; ++w) highest = maxima[w] > highest ? maxima[w] : highest;
    A total = 0, y = 0;
    for (int w = 0; w < kWarps; ++w) {
      const A weight = exponential(maxima[w] - highest);
      total += weight * sums[w], y += weight * outs[w][d];
    }
    x.out_BTHD[(at * s.H + h) * s.D + d] = static_cast<T>(y / total);
  }
}

}  // namespace

template <>
void attention_cached(CudaStream stream, const AttentionCached& call) {
  const AttentionShape& s = call.shape;
  if (s.B * s.T * s.H * s.D == 0 || decode::attention(stream, call)) return;
  require_head_size(DeviceType::cuda, s.D);
  dispatch_float(call.dtype, [&]<class T>() {
    const CachedArrays<T> x{static_cast<T*>(call.out_BTHD),
                            static_cast<const T*>(call.qkv),
                            static_cast<const T*>(call.k_cache),
                            static_cast<const T*>(call.v_cache),
                            s.row(),
                            call.capacity,
                            call.past,
                            call.past_B};
    append_kernel<<<static_cast<unsigned>(s.B * s.T), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(call.qkv), static_cast<T*>(call.k_cache), static_cast<T*>(call.v_cache), x, s,
        Rotation{call.rope_base, call.rope_scaling});
    check_launch("attention_cached");
    if (is_whole_prompt(call)) return;
    tile::dispatch_head_size(s.D, [&]<int DP>() {
      launch(stream, cached_kernel<T, DP / 32>, s.B * s.T * s.H, kThreads, Size{0}, x, s,
             static_cast<Arithmetic<T>>(call.scale));
    });
  });
  if (!is_whole_prompt(call)) return;
  attention_forward(stream, {.dtype = call.dtype,
                             .shape = s,
                             .scale = call.scale,
                             .out_BTHD = call.out_BTHD,
                             .lse_BHT = call.workspace,
                             .qkv = call.qkv});
}

}  // namespace lt::kernels
