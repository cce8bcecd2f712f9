// Attention of one new token of each sequence. A block takes kQueries query heads of a group and one part of the keys.
// So each key is read once for all of these heads, and a single sequence occupies many multiprocessors. kLanes threads
// hold a key, 16 bytes each. Every group of kLanes threads has its own running softmax (Milakov & Gimelshein 2018). The
// softmaxes are joined in the warp, in the block, and over the parts, always in the same order. The blocks of a head
// are a cluster, which joins their results through shared memory; on devices without clusters, a second kernel joins
// them. The numbers of keys and heads decide the parts, so a sequence gets the same bits in every batch.
#include "kernels/cuda/attention_decode.h"

#include "kernels/attention_options.h"
#include "kernels/cuda/attention_rotation.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/packed.cuh"
#include "kernels/cuda/row_parts.cuh"

namespace lt::kernels::decode {
namespace {

constexpr int kDecodeThreads = 256, kDecodeWarps = kDecodeThreads / kWarp;
constexpr int kKeysAtOnce = 2;  // per group of lanes, so that their loads overlap
constexpr int kLeastKeys = 64;  // of a part, if there is more than one
constexpr int kParts = kCachedParts;
using Parts = RowParts<kParts>;
constexpr float kHidden = -1e30f;  // finite: a thread may see no key

template <class T>
struct Call {
  T* out_BHD;
  const T* qkv;
  T *k_cache, *v_cache;
  Size capacity, past;
  const std::int32_t* past_B;
  float scale;
  Rotation rotation;
  float* parts;  // [B, H / kQueries, kParts, kQueries, D + 2]: Part of each block; without clusters only
};

// A softmax over some keys: the maximum of their scores, and sums relative to it.
template <int kCount>
struct Running {
  float max = kHidden, sum = 0, out[kCount] = {};

  __device__ void join(float other_max, float other_sum, const float* other_out) {
    const float highest = fmaxf(max, other_max), own = expf(max - highest), others = expf(other_max - highest);
    max = highest, sum = own * sum + others * other_sum;
#pragma unroll
    for (int k = 0; k < kCount; ++k) out[k] = own * out[k] + others * other_out[k];
  }
};

// The softmax of a block: for each query its maximum, its sum and the weighted sums of the values.
template <int kQueries, int D>
using Part = float[kQueries][D + 2];

// Output i of [kQueries, D] from all parts.
template <int kQueries, int D, class OfPart>
__device__ float joined(int i, const OfPart& of_part) {
  const int q = i / D, d = i % D;
  float maxima[kParts], sums[kParts], values[kParts], highest = kHidden, sum = 0, value = 0;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float* const row = of_part(p) + q * (D + 2);
    maxima[p] = row[0], sums[p] = row[1], values[p] = row[2 + d];
    highest = fmaxf(highest, maxima[p]);
  }
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float scale = expf(maxima[p] - highest);
    sum += scale * sums[p], value += scale * values[p];
  }
  return value / sum;
}

// A block for each group of queries.
template <class T, int D, int kQueries>
__global__ void __launch_bounds__(kDecodeThreads) join_kernel(T* out_BHD, const float* parts) {
  const float* const own = parts + static_cast<Size>(blockIdx.x) * kParts * kQueries * (D + 2);
  T* const out = out_BHD + static_cast<Size>(blockIdx.x) * kQueries * D;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * D; i += kDecodeThreads) {
    out[i] = store<T>(joined<kQueries, D>(i, [&](int p) { return own + p * kQueries * (D + 2); }));
  }
}

template <class T, int kLanes, int kQueries, bool kClusters>
__global__ void __launch_bounds__(kDecodeThreads, 2) decode_kernel(Call<T> x, AttentionShape s) {
  constexpr int kCount = kPack<T>, D = kLanes * kCount, kHalf = D / 2, kGroups = kDecodeThreads / kLanes;
  __shared__ float queries[kQueries][D], cosines[kHalf], sines[kHalf];
  __shared__ float maxima[kDecodeWarps][kQueries], sums[kDecodeWarps][kQueries], outs[kDecodeWarps][kQueries][D];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes, group = thread / kLanes;
  const int warp = thread / kWarp;
  const int chunks = static_cast<int>(s.H) / kQueries, split = static_cast<int>(blockIdx.x) % kParts;
  const int chunk = static_cast<int>(blockIdx.x) / kParts % chunks;
  const Size b = static_cast<Size>(blockIdx.x) / kParts / chunks;
  const Size first_head = static_cast<Size>(chunk) * kQueries, kv_head = first_head * s.G / s.H;
  const Size position = x.past_B != nullptr ? x.past_B[b] : x.past, first = s.first_seen(position);
  const Size keys = position + 1 - first, even = (keys + kParts - 1) / kParts;
  const Size length = even > kLeastKeys ? even : kLeastKeys, last_part = (keys - 1) / length;
  const Size begin = first + split * length, end = begin + length < position + 1 ? begin + length : position + 1;
  const Size row = s.G * D, head = b * x.capacity * row + kv_head * D;

  // The last part writes the new key and value before it reads them.
  const T* const token = x.qkv + b * s.row();
  const bool rotates = x.rotation.base > 0;
  for (int d = thread; rotates && d < kHalf; d += kDecodeThreads) {
    x.rotation.angle(position, d, D, cosines[d], sines[d]);
  }
  let_next_kernel_start();
  wait_for_earlier_kernels();  // past_B is older than all kernels that still run
  // Fetches keys and values, either the new token's or the others.
  Packed<T> k[kKeysAtOnce], v[kKeysAtOnce];
  const auto fetch = [&](Size base, bool of_new_token) {
#pragma unroll
    for (int j = 0; j < kKeysAtOnce; ++j) {
      const Size wanted = base + j * kGroups + group, key = wanted < end ? wanted : end - 1;
      if ((key == position) != of_new_token) continue;
      const Size at = head + key * row + lane * kCount;
      k[j] = *reinterpret_cast<const Packed<T>*>(x.k_cache + at);
      v[j] = *reinterpret_cast<const Packed<T>*>(x.v_cache + at);
    }
  };
  if (begin < end) fetch(begin, false);  // under way while the query is rotated
  __syncthreads();
  const bool appends = split == last_part;
  for (int i = thread; i < (kQueries + (appends ? 1 : 0)) * kHalf; i += kDecodeThreads) {
    const int q = i / kHalf, d = i % kHalf;
    const T* const from = token + (q < kQueries ? first_head + q : s.H + kv_head) * D + d;
    float u = load(from[0]), v = load(from[kHalf]);
    if (rotates) {
      const float low = u * cosines[d] - v * sines[d];
      v = v * cosines[d] + u * sines[d], u = low;
    }
    if (q < kQueries) {
      queries[q][d] = x.scale * load(store<T>(u)), queries[q][d + kHalf] = x.scale * load(store<T>(v));
    } else {
      T* const to = x.k_cache + head + position * row + d;
      to[0] = store<T>(u), to[kHalf] = store<T>(v);
    }
  }
  for (int d = thread; appends && d < D; d += kDecodeThreads) {
    x.v_cache[head + position * row + d] = token[(s.H + s.G + kv_head) * D + d];
  }
  __syncthreads();

  Running<kCount> running[kQueries];
  for (Size base = begin; base < end; base += kGroups * kKeysAtOnce) {
    if (base > begin) fetch(base, false);
    fetch(base, true);
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      float score[kKeysAtOnce], highest = running[q].max;
#pragma unroll
      for (int j = 0; j < kKeysAtOnce; ++j) {
        score[j] = 0;
#pragma unroll
        for (int c = 0; c < kCount; ++c) score[j] += queries[q][lane * kCount + c] * k[j][c];
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          score[j] += __shfl_xor_sync(0xffffffffu, score[j], offset);
        }
        if (base + j * kGroups + group >= end) score[j] = kHidden;
        highest = fmaxf(highest, score[j]);
      }
      const float rescale = expf(running[q].max - highest);
      running[q].max = highest, running[q].sum *= rescale;
#pragma unroll
      for (int c = 0; c < kCount; ++c) running[q].out[c] *= rescale;
#pragma unroll
      for (int j = 0; j < kKeysAtOnce; ++j) {
        const float p = base + j * kGroups + group < end ? expf(score[j] - highest) : 0.0f;  // NaN stays NaN
        running[q].sum += p;
#pragma unroll
        for (int c = 0; c < kCount; ++c) running[q].out[c] += p * v[j][c];
      }
    }
  }

#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
#pragma unroll
    for (int offset = kLanes; offset < kWarp; offset *= 2) {
      float out[kCount];
      const float max = __shfl_xor_sync(0xffffffffu, running[q].max, offset);
      const float sum = __shfl_xor_sync(0xffffffffu, running[q].sum, offset);
#pragma unroll
      for (int c = 0; c < kCount; ++c) out[c] = __shfl_xor_sync(0xffffffffu, running[q].out[c], offset);
      running[q].join(max, sum, out);
    }
    if (thread % kWarp >= kLanes) continue;
    if (lane == 0) maxima[warp][q] = running[q].max, sums[warp][q] = running[q].sum;
#pragma unroll
    for (int c = 0; c < kCount; ++c) outs[warp][q][lane * kCount + c] = running[q].out[c];
  }
  __syncthreads();
  __shared__ Part<kQueries, D> part;
  for (int i = thread; i < kQueries * D; i += kDecodeThreads) {
    const int q = i / D, d = i % D;
    Running<1> all;
    for (int w = 0; w < kDecodeWarps; ++w) all.join(maxima[w][q], sums[w][q], &outs[w][q][d]);
    if (d == 0) part[q][0] = all.max, part[q][1] = all.sum;
    part[q][2 + d] = all.out[0];
  }
  if constexpr (kClusters) {
    Parts::synchronize();
    T* const out = x.out_BHD + (b * s.H + first_head) * D;
    const int i = thread * kParts + split;  // the blocks share the outputs
    if (i < kQueries * D) out[i] = store<T>(joined<kQueries, D>(i, [&](int p) { return Parts::of(&part[0][0], p); }));
    Parts::synchronize();  // others may still read this block's part
  } else {
    __syncthreads();
    float* const to = x.parts + static_cast<Size>(blockIdx.x) * kQueries * (D + 2);
    for (int i = thread; i < kQueries * (D + 2); i += kDecodeThreads) to[i] = (&part[0][0])[i];
  }
}

template <class T, int kLanes, int kQueries>
void launch(CudaStream stream, const Call<T>& x, const AttentionShape& s, bool clusters) {
  constexpr int D = kLanes * kPack<T>;
  static_assert(kQueries * D <= kParts * kDecodeThreads);
  const Size groups = s.B * s.H / kQueries;
  const auto clustered = decode_kernel<T, kLanes, kQueries, true>;
  if (clusters && runs_new_code(stream, clustered))
    return launch_in_parts<kParts>(stream, clustered, groups, kDecodeThreads, x, s);
  launch_early(stream, decode_kernel<T, kLanes, kQueries, false>, groups * kParts, kDecodeThreads, x, s);
  join_kernel<T, D, kQueries>
      <<<static_cast<unsigned>(groups), kDecodeThreads, 0, stream_of(stream)>>>(x.out_BHD, x.parts);
  check_launch("attention_join");
}

template <class T, int kLanes>
void launch_for_queries(CudaStream stream, const AttentionCached& call, bool clusters) {
  const Call<T> x{static_cast<T*>(call.out_BTHD),
                  static_cast<const T*>(call.qkv),
                  static_cast<T*>(call.k_cache),
                  static_cast<T*>(call.v_cache),
                  call.capacity,
                  call.past,
                  call.past_B,
                  static_cast<float>(call.scale),
                  {call.rope_base, call.rope_scaling},
                  static_cast<float*>(call.workspace)};
  switch (cached_queries_at_once(call.shape)) {
    case 4: return launch<T, kLanes, 4>(stream, x, call.shape, clusters);
    case 2: return launch<T, kLanes, 2>(stream, x, call.shape, clusters);
    default: launch<T, kLanes, 1>(stream, x, call.shape, clusters);
  }
}

template <class T>
bool launch_for_head(CudaStream stream, const AttentionCached& call, bool clusters) {
  switch (call.shape.D / kPack<T>) {
    case 8: return launch_for_queries<T, 8>(stream, call, clusters), true;
    case 16: return launch_for_queries<T, 16>(stream, call, clusters), true;
    case 32: return launch_for_queries<T, 32>(stream, call, clusters), true;
    default: return false;
  }
}

}  // namespace

bool attention(CudaStream stream, const AttentionCached& call, bool clusters) {
  if (call.shape.T != 1 || call.shape.D % 8 != 0 || !aligned(call.qkv, call.k_cache, call.v_cache)) return false;
  switch (call.dtype) {
    case DType::bf16: return launch_for_head<bf16>(stream, call, clusters);
    case DType::f16: return launch_for_head<f16>(stream, call, clusters);
    case DType::f32: return launch_for_head<float>(stream, call, clusters);
    default: return false;
  }
}

}  // namespace lt::kernels::decode
