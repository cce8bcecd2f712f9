// Attention's forward for heads of 64 channels on the tensor cores of compute capability 9.0.
//
// A block of threads stays on its multiprocessor and takes item after item. An item is four tiles of 64 queries that
// see about the same keys, one for each of four warp groups. A warp group goes over the keys that its queries see in
// tiles of 64, from the last to the first: S = q k^T, P = exp(scale S - reference), out += P v (Dao 2023,
// "FlashAttention-2", algorithm 1). P is an operand of the second matmul without leaving its registers. This matmul and
// the next tile's S are started together; it still runs while the next tile's P is computed. A thread of a fifth warp
// group loads queries, keys and values.
//
// The reference of a row is the largest score of its first tile. A running softmax takes the largest score so far,
// which costs a comparison for each score. Here P may exceed 1, but it is rounded relative to its size, and out is
// divided by the sum of P at the end. If a thread's sum of P over a row of the tile exceeds kLargestSum, its warp
// raises the references of its 16 rows and computes P again. So the last bits of a row may depend on later tokens
// among these.
#include "kernels/cuda/attention_hopper.h"

#include <algorithm>

#include "kernels/cuda/attention_forward_hopper_work.cuh"
#include "kernels/cuda/attention_hopper_maps.h"

namespace lt::kernels::hopper {
namespace forward {
namespace {

// The softmax of a thread's two rows, over the tiles so far. Element 4 n + r of Sums is in row r / 2.
struct Softmax {
  float reference[2];  // of scores in units of log 2: log2(e) scale S
  float sum[2];        // of the P that the thread computed
};

// A thread that computes: `thread` 0 to 127 of warp group `group`.
struct Worker {
  std::uint32_t shared;
  int group, thread;
  float factor;  // log2(e) scale

  // Addresses in shared memory.
  __device__ std::uint32_t k(int stage) const { return shared + LT_AT(k) + stage * kTileBytes; }
  __device__ std::uint32_t v(int stage) const { return shared + LT_AT(v) + stage * kTileBytes; }
  __device__ std::uint32_t q(int stage) const { return shared + LT_AT(q) + (stage * kGroups + group) * kTileBytes; }
  __device__ std::uint32_t out() const { return shared + LT_AT(out) + group * kTileBytes; }
  // Each warp gives a stage back when it has read it.
  __device__ void give_queries_back(int stage) const {
    arrive_as_warp(shared + LT_AT(q_empty) + 8 * stage, thread % kWarp);
  }
  __device__ void give_keys_back(int stage) const { arrive_as_warp(shared + LT_AT(empty) + 8 * stage, thread % kWarp); }
};

// S = q k^T.
template <class T>
__device__ void start_scores(Sums& s, TileDescriptor q, TileDescriptor k) {
  begin(s);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<T, 0, 0>(s, q.at(32 * i), k.at(32 * i), i > 0);
  wgmma_commit();
}
// out += P v.
template <class T>
__device__ void start_output(Sums& out, Operand<T>& p, TileDescriptor v) {
  changed(out);
#pragma unroll
  for (int i = 0; i < 4; ++i) p[i].stay_packed();
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<T>(out, p[i], v.at(2048 * i));
  wgmma_commit();
}

// S of a warp's 16 queries, by the warp alone, because only it raises its references.
template <class T>
__device__ void scores_of_warp(Sums& s, std::uint32_t q, std::uint32_t k, int thread) {
#pragma unroll
  for (int i = 0; i < 32; ++i) s[i] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Packed<T> a = load_columns<T>(q, i, thread);
#pragma unroll
    for (int n = 0; n < 4; ++n) multiply_of_warp<T>(&s[8 * n], a, k, n, i, thread);
  }
}

__device__ void hide_later_keys(Sums& s, const Worker& w) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (sum_column(i, w.thread) > sum_row(i, w.thread)) s[i] = -INFINITY;
  }
}
// The largest scores of the thread's two rows, in units of log 2.
__device__ void find_largest(float (&largest)[2], const Sums& s, float factor) {
  largest[0] = largest[1] = -INFINITY;
#pragma unroll
  for (int i = 0; i < 32; ++i) largest[i % 4 / 2] = fmaxf(largest[i % 4 / 2], s[i] * factor);
#pragma unroll
  for (float& row : largest) row = warp_max<4>(row);
}
// P from S; adds its elements to `sum`.
__device__ void exponentiate(Sums& s, float (&sum)[2], const Softmax& softmax, float factor) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    s[i] = power_of_two(fmaf(s[i], factor, -softmax.reference[i % 4 / 2]));
    sum[i % 4 / 2] += s[i];
  }
}

// The largest sum of a thread's P over a row of a tile. It keeps P finite in T and sums finite in f32; out too, unless
// values of bf16 exceed 2^75.
template <class T>
constexpr float kLargestSum = std::is_same_v<T, bf16> ? 0x1p32f : 0x1p15f;

// Raises the references to the largest scores of a tile, if these are larger, and computes its P and their `sum` again.
// `shrink` is what P of the tiles before has to be multiplied by.
template <class T>
__device__ void raise_references(Sums& s, Softmax& softmax, float (&sum)[2], float (&shrink)[2], const Worker& w,
                                 std::uint32_t q, std::uint32_t k) {
  scores_of_warp<T>(s, q, k, w.thread);
  float largest[2];
  find_largest(largest, s, w.factor);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float before = softmax.reference[i];
    softmax.reference[i] = fmaxf(before, largest[i]);
    shrink[i] = power_of_two(before - softmax.reference[i]);
    softmax.sum[i] *= shrink[i], sum[i] = 0;
  }
  exponentiate(s, sum, softmax, w.factor);
}

// Divides out by the sums, and stores it and lse.
template <class T>
__device__ void store_output(const Arguments& x, const TilePlace& at, Sums& out, const Softmax& softmax,
                             const Worker& w) {
  float* const lse = x.lse_BHT + (static_cast<Size>(at.b) * x.H + at.head) * x.T + at.t;
  float inverse[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = warp_sum<4>(softmax.sum[i]);
    inverse[i] = 1 / sum;
    if (w.thread % 4 == 0) lse[sum_row(2 * i, w.thread)] = (softmax.reference[i] + log2f(sum)) * kLn2;
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) out[i] *= inverse[i % 4 / 2];
  if (w.thread == 0) wait_until_read();  // the tile of the item before
  synchronize(1 + w.group, kWarpGroup);
  store_rounded<T>(w.out(), out, w.thread);
  fence_shared_for_copies();
  synchronize(1 + w.group, kWarpGroup);
  if (w.thread == 0) store_tile(x.out, at, w.out());
}

template <class T>
__device__ void compute(const Arguments& x, const Worker& w) {
  const int ratio = x.H / x.G;
  Ring<kQueryStages> queries;
  Ring<kKeyStages> keys;
  Items items;
  for (Item item; items.next(item, x); queries.advance()) {
    const int tile = item.last_tile - w.group, diagonal = tile / ratio;
    const TilePlace at{item.g * ratio + tile % ratio, diagonal * kTile, item.b};
    const TileDescriptor q(w.q(queries.stage));
    const auto wait_for_keys = [&] { wait_for(w.shared + LT_AT(full) + 8 * keys.stage, keys.parity); };
    wait_for(w.shared + LT_AT(q_full) + 8 * queries.stage, queries.parity);
    for (int j = item.last_tile / ratio; j > diagonal; --j, keys.advance()) {  // the tile sees none of these keys
      wait_for_keys();
      w.give_keys_back(keys.stage);
    }
    Sums s, out;
    Operand<T> p;
    Softmax softmax{{}, {0, 0}};
    wait_for_keys();
    start_scores<T>(s, q, TileDescriptor(w.k(keys.stage)));
    wgmma_wait<0>();
    changed(s);
    hide_later_keys(s, w);
    find_largest(softmax.reference, s, w.factor);
    exponentiate(s, softmax.sum, softmax, w.factor);
    round_to<T>(p, s);
#pragma unroll
    for (int i = 0; i < 32; ++i) out[i] = 0;
#pragma unroll 1
    for (int j = diagonal; j > 0; --j) {
      const int stage = keys.stage;
      keys.advance();
      wait_for_keys();
      start_scores<T>(s, q, TileDescriptor(w.k(keys.stage)));
      start_output<T>(out, p, TileDescriptor(w.v(stage)));
      wgmma_wait<1>();
      changed(s);
      float sum[2] = {0, 0}, shrink[2] = {1, 1};
      exponentiate(s, sum, softmax, w.factor);
      const bool raise = __any_sync(~0u, fmaxf(sum[0], sum[1]) > kLargestSum<T>);
      // out += P v still runs, and raise_references() touches neither out nor p. All four warps must execute the wait,
      // and one may raise alone, so the wait is outside the branch.
      if (raise) raise_references<T>(s, softmax, sum, shrink, w, w.q(queries.stage), w.k(keys.stage));
      wgmma_wait<0>();
      changed(out);
      w.give_keys_back(stage);
      if (raise) {
#pragma unroll
        for (int i = 0; i < 32; ++i) out[i] *= shrink[i % 4 / 2];
      }
      softmax.sum[0] += sum[0], softmax.sum[1] += sum[1];
      round_to<T>(p, s);
    }
    w.give_queries_back(queries.stage);
    start_output<T>(out, p, TileDescriptor(w.v(keys.stage)));
    wgmma_wait<0>();
    changed(out);
    w.give_keys_back(keys.stage);
    keys.advance();
    store_output<T>(x, at, out, softmax, w);
  }
  if (w.thread == 0) wait_until_stored();
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads, 1) attention_forward_kernel(const __grid_constant__ Arguments x) {
  extern __shared__ __align__(1024) std::byte shared_memory[];
  const std::uint32_t shared = shared_address(shared_memory);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    if (shared % 1024 != 0) __trap();
    for (int i = 0; i < kQueryStages; ++i) {
      init_barrier(shared + LT_AT(q_full) + 8 * i, 1), init_barrier(shared + LT_AT(q_empty) + 8 * i, kComputingWarps);
    }
    for (int i = 0; i < kKeyStages; ++i) {
      init_barrier(shared + LT_AT(full) + 8 * i, 1), init_barrier(shared + LT_AT(empty) + 8 * i, kComputingWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  const int group = uniform(thread / kWarpGroup);
  if (group == kGroups) {
    give_registers_up<kOtherRegisters>();
    if (thread == kComputing) load_tiles(x, shared);
    return;
  }
  take_registers<kComputingRegisters>();
  compute<T>(x, Worker{shared, group, thread % kWarpGroup, x.scale * kLog2E});
}

template <class T>
void run(CudaStream stream, const AttentionForward& call) {
  const AttentionShape& s = call.shape;
  const TileMaps maps{call.dtype, s};
  const Arguments arguments{maps.queries(call.qkv, kTile),
                            maps.keys(call.qkv, kTile),
                            maps.values(call.qkv, kTile),
                            maps.output(call.out_BTHD, kTile),
                            static_cast<float*>(call.lse_BHT),
                            static_cast<int>(s.T),
                            static_cast<int>(s.H),
                            static_cast<int>(s.G),
                            static_cast<int>(s.B * s.G),
                            static_cast<float>(call.scale)};
  const Size items = s.B * s.H * (s.T / kTile) / kGroups;
  launch(stream, attention_forward_kernel<T>, std::min<Size>(items, multiprocessors(stream)), kBlockThreads,
         Size{sizeof(Shared)}, arguments);
}

#undef LT_AT

}  // namespace
}  // namespace forward

bool attention_forward(CudaStream stream, const AttentionForward& call) {
  if (!aligned(call.qkv, call.out_BTHD) || !(call.scale > 0)) return false;
  if (call.dtype == DType::bf16) {
    forward::run<bf16>(stream, call);
  } else {
    forward::run<f16>(stream, call);
  }
  return true;
}

}  // namespace lt::kernels::hopper
