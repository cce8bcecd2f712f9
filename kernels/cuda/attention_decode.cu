// Attention of one new token of each sequence. A block takes kQueries query heads of a group and one part of the keys:
// so each key is read once for all of them, and a single sequence fills the device. kLanes threads hold a key, 16 bytes
// each. Every group of kLanes threads has its own running softmax (Milakov & Gimelshein 2018). They are joined in the
// warp, in the block, and, by the block of a head that finishes last, over all parts; always in the same order. The
// numbers of keys and heads decide the parts, so a sequence gets the same bits in every batch.
#include "kernels/cuda/attention_decode.h"

#include "kernels/attention_options.h"
#include "kernels/cuda/attention_rotation.cuh"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/packed.cuh"

namespace lt::kernels::decode {
namespace {

constexpr int kDecodeThreads = 128, kDecodeWarps = kDecodeThreads / kWarp;
constexpr int kKeysAtOnce = 4;     // per group of lanes, so that their loads overlap
constexpr int kLeastKeys = 64;     // of a part, if there is more than one
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
  float* parts;  // [B, H, splits, D + 2]: the maximum, the sum of exponentials, the weighted sum of values
  std::int32_t* arrivals;
  int splits;
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

template <class T, int kLanes, int kQueries>
__global__ void __launch_bounds__(kDecodeThreads) decode_kernel(Call<T> x, AttentionShape s) {
  constexpr int kCount = kPack<T>, D = kLanes * kCount, kHalf = D / 2, kGroups = kDecodeThreads / kLanes;
  __shared__ float queries[kQueries][D], cosines[kHalf], sines[kHalf];
  __shared__ float maxima[kDecodeWarps][kQueries], sums[kDecodeWarps][kQueries], outs[kDecodeWarps][kQueries][D];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes, group = thread / kLanes;
  const int warp = thread / kWarp;
  const int chunks = static_cast<int>(s.H) / kQueries, split = static_cast<int>(blockIdx.x) % x.splits;
  const int chunk = static_cast<int>(blockIdx.x) / x.splits % chunks;
  const Size b = static_cast<Size>(blockIdx.x) / x.splits / chunks;
  const Size first_head = static_cast<Size>(chunk) * kQueries, kv_head = first_head * s.G / s.H;
  const Size position = x.past_B != nullptr ? x.past_B[b] : x.past, first = s.first_seen(position);
  const Size keys = position + 1 - first, even = (keys + x.splits - 1) / x.splits;
  const Size part = even > kLeastKeys ? even : kLeastKeys, parts = (keys + part - 1) / part;
  if (split >= parts) return;
  const Size begin = first + split * part, end = begin + part < position + 1 ? begin + part : position + 1;
  const Size row = s.G * D, head = b * x.capacity * row + kv_head * D;

  // The last part writes the new key and value before it reads them.
  const T* const token = x.qkv + b * s.row();
  const bool rotates = x.rotation.base > 0;
  for (int d = thread; rotates && d < kHalf; d += kDecodeThreads) {
    x.rotation.angle(position, d, D, cosines[d], sines[d]);
  }
  wait_for_earlier_kernels();  // past_B is older than the kernel before, which computes qkv
  let_next_kernel_start();
  __syncthreads();
  const bool appends = split == parts - 1;
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
    Packed<T> k[kKeysAtOnce], v[kKeysAtOnce];
#pragma unroll
    for (int j = 0; j < kKeysAtOnce; ++j) {
      const Size key = base + j * kGroups + group;
      const Size at = head + (key < end ? key : end - 1) * row + lane * kCount;
      k[j] = *reinterpret_cast<const Packed<T>*>(x.k_cache + at);
      v[j] = *reinterpret_cast<const Packed<T>*>(x.v_cache + at);
    }
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
        const float p = score[j] > kHidden ? expf(score[j] - highest) : 0.0f;
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
  T* const out = x.out_BHD + (b * s.H + first_head) * D;
  float* const own = x.parts + (b * s.H + first_head) * x.splits * (D + 2);  // of the first head
  for (int i = thread; i < kQueries * D; i += kDecodeThreads) {
    const int q = i / D, d = i % D;
    Running<1> all;
    for (int w = 0; w < kDecodeWarps; ++w) all.join(maxima[w][q], sums[w][q], &outs[w][q][d]);
    if (parts == 1) {
      out[i] = store<T>(all.out[0] / all.sum);
      continue;
    }
    float* const to = own + (static_cast<Size>(q) * x.splits + split) * (D + 2);
    if (d == 0) to[0] = all.max, to[1] = all.sum;
    to[2 + d] = all.out[0];
  }
  if (parts == 1) return;

  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    auto* const counter = reinterpret_cast<unsigned*>(x.arrivals + b * s.H + first_head);
    is_last = atomicInc(counter, static_cast<unsigned>(parts - 1)) == static_cast<unsigned>(parts - 1);  // then it is 0
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int i = thread; i < kQueries * D; i += kDecodeThreads) {
    const float* from = own + static_cast<Size>(i / D) * x.splits * (D + 2);
    Running<1> all;
    for (Size p = 0; p < parts; ++p, from += D + 2) {
      const float value = __ldcg(from + 2 + i % D);
      all.join(__ldcg(from), __ldcg(from + 1), &value);
    }
    out[i] = store<T>(all.out[0] / all.sum);
  }
}

template <class T, int kLanes>
void launch(CudaStream stream, const AttentionCached& call) {
  const AttentionShape& s = call.shape;
  const auto splits = static_cast<int>(call.arrivals_BH != nullptr ? cached_splits(s) : 1);
  const Call<T> x{static_cast<T*>(call.out_BTHD),
                  static_cast<const T*>(call.qkv),
                  static_cast<T*>(call.k_cache),
                  static_cast<T*>(call.v_cache),
                  call.capacity,
                  call.past,
                  call.past_B,
                  static_cast<float>(call.scale),
                  {call.rope_base, call.rope_scaling},
                  static_cast<float*>(call.workspace),
                  call.arrivals_BH,
                  splits};
  const auto run = [&]<int kQueries>() {
    const Size blocks = s.B * s.H / kQueries * splits;
    launch_early(stream, decode_kernel<T, kLanes, kQueries>, blocks, kDecodeThreads, x, s);
  };
  switch (cached_queries_at_once(s)) {
    case 4: run.template operator()<4>(); break;
    case 2: run.template operator()<2>(); break;
    default: run.template operator()<1>();
  }
}

template <class T>
bool launch_for_head(CudaStream stream, const AttentionCached& call) {
  switch (call.shape.D / kPack<T>) {
    case 8: return launch<T, 8>(stream, call), true;
    case 16: return launch<T, 16>(stream, call), true;
    case 32: return launch<T, 32>(stream, call), true;
    default: return false;
  }
}

}  // namespace

bool attention(CudaStream stream, const AttentionCached& call) {
  if (call.shape.T != 1 || call.shape.D % 8 != 0 || !aligned(call.qkv, call.k_cache, call.v_cache)) return false;
  switch (call.dtype) {
    case DType::bf16: return launch_for_head<bf16>(stream, call);
    case DType::f16: return launch_for_head<f16>(stream, call);
    case DType::f32: return launch_for_head<float>(stream, call);
    default: return false;
  }
}

}  // namespace lt::kernels::decode
