// Attention of new queries against a cache of keys and values, for generation. One block per query of one head. Each of
// its warps takes four keys of every 32, with its own running softmax (Milakov & Gimelshein 2018); the sums of the
// warps are joined in order.
#include "kernels/cuda/attention_tile.cuh"

namespace lt::kernels {
namespace {

using namespace tile;

constexpr int kWarps = kThreads / 32;
constexpr int kKeys = 4;  // keys per warp at a time, so that their loads overlap

template <class T>
struct CachedArrays {
  T* out_BTHD;
  const T *q, *k_cache, *v_cache;
  Size q_row, capacity, past;
};

// Each lane holds kPer channels: lane, lane + 32, ...
template <class T, int kPer>
__global__ void __launch_bounds__(kThreads) cached_kernel(CachedArrays<T> x, AttentionShape s, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  __shared__ A maxima[kWarps], sums[kWarps], outs[kWarps][32 * kPer];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const Size h = blockIdx.x % s.H, at = blockIdx.x / s.H, b = at / s.T, keys = x.past + at % s.T + 1;
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
  dispatch_float(call.dtype, [&]<class T>() {
    dispatch_head_size(s.D, [&]<int DP>() {
      const CachedArrays<T> x{static_cast<T*>(call.out_BTHD),
                              static_cast<const T*>(call.q),
                              static_cast<const T*>(call.k_cache),
                              static_cast<const T*>(call.v_cache),
                              call.q_row,
                              call.capacity,
                              call.past};
      launch(stream, cached_kernel<T, DP / 32>, s.B * s.T * s.H, Size{0}, x, s, static_cast<Arithmetic<T>>(call.scale));
    });
  });
}

}  // namespace lt::kernels
