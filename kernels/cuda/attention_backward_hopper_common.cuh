// What attention's two backward kernels for compute capability 9.0 share: the work of a block of threads and of its
// warp groups, the order in which dq is added, and the arithmetic on scores between the matmuls.
//
// dq is kept as halves: 64 channels of a query head, two halves in a head of 128 channels. Each is summed on its own.
#pragma once

#include <cstddef>

#include "kernels/attention.h"
#include "kernels/attention_options.h"
#include "kernels/cuda/attention_hopper_maps.h"
#include "kernels/cuda/hopper.cuh"

namespace lt::kernels::hopper {

inline constexpr int kQueries = kHopperQueries;  // of a tile
inline constexpr int kTileBytes = kQueries * kTileRowBytes;
inline constexpr int kKeyGroupBytes = 64 * kTileRowBytes;  // 64 channels of 64 keys
inline constexpr int kSumBytes = kQueries * 64 * 4;        // dq of a tile, 64 channels

// Two warp groups compute. A third one has the thread that loads tiles and the first of the two that move dq, each the
// first thread of its warp.
inline constexpr int kComputing = 2 * kWarpGroup, kBlockThreads = kComputing + kWarpGroup;
inline constexpr int kLoader = kComputing, kMovers = kComputing + kWarp;
// Registers of a computing thread and of any other thread. The block starts with 168 per thread, which is 65,536
// divided by the threads and rounded down to a multiple of 8. Only these can be redistributed.
inline constexpr int kComputingRegisters = 240, kOtherRegisters = 24;
static_assert(kComputingRegisters * kComputing + kOtherRegisters * kWarpGroup <= 168 * kBlockThreads);
// Numbers of the block's barriers. kOneWarpGroup is the first of two, one per warp group.
inline constexpr int kAllComputing = 1, kOneWarpGroup = 2;

// Tensor maps and pointers of the arrays; dims as in AttentionShape, and C = D / 64 halves. To the maps a head has 64
// channels, so a head of 128 is two of them.
struct Arguments {
  CUtensorMap q, k, v, dq, dk, dv, dout;
  const float *lse_BHT, *delta_BHT;
  float* sums;  // of dq, [B, H, C, T / 64][8][128][4]: [n][t] holds elements 4 n to 4 n + 3 of thread t's Sums
  int* added;   // [B, H, C, T / 64]: how many blocks of keys have added to a tile
  int T, H, G;
  float scale;
  bool in_pairs;
};

// The work of a block of threads: one block of keys, or a pair, the i-th from the last and then the i-th. All pairs
// have the same work.
template <int kChannels>
struct Work {
  static constexpr int kKeys = hopper_keys(kChannels);         // of a block
  static constexpr int kHalves = kChannels / 64;               // of the channels; a tile has 64 of them
  static constexpr int kKeyTileBytes = kKeys * kTileRowBytes;  // one half of a block's keys
  static constexpr int kTilesOfDiagonal = kKeys / kQueries;
  // The movers of 64-channel heads take tiles in turn. An even number of tiles keeps each mover's parity from one block
  // of keys to the next.
  static_assert(kTilesOfDiagonal % 2 == 0);
  int b, g, queries_of_group, blocks, tiles, i, parts;

  __device__ explicit Work(const Arguments& x)
      : queries_of_group(x.H / x.G), blocks(x.T / kKeys), tiles(x.T / kQueries), parts(x.in_pairs ? 2 : 1) {
    const int each = x.in_pairs ? blocks / 2 : blocks, sequence_head = static_cast<int>(blockIdx.x) / each;
    b = sequence_head / x.G, g = sequence_head % x.G, i = static_cast<int>(blockIdx.x) % each;
  }
  __device__ int block(int part) const { return part == 0 ? blocks - 1 - i : i; }
  __device__ int first_tile(int block) const { return block * kTilesOfDiagonal; }
  __device__ int head(int n) const { return g * queries_of_group + n % queries_of_group; }
  // The n-th tile, from tile `first` on: all query heads of g take one tile of queries before the next.
  __device__ int tile(int first, int n) const { return first + n / queries_of_group; }
  __device__ int count(int block) const { return (tiles - first_tile(block)) * queries_of_group; }
  __device__ Size row(const Arguments& x, int head) const { return static_cast<Size>(b) * x.H + head; }
};

// The offset in bytes of a member of Shared, the struct of a kernel's shared memory. The .cu files undefine it.
#define LT_AT(member) static_cast<std::uint32_t>(offsetof(Shared, member))

// Returns the address of the block's shared memory once its barriers are ready. `init_others` gets the address. It
// must initialise all barriers except those of the keys and values.
template <class Shared, class InitOthers>
__device__ std::uint32_t begin_block(const InitOthers& init_others) {
  extern __shared__ __align__(1024) std::byte shared_memory[];
  const std::uint32_t shared = shared_address(shared_memory);
  if (threadIdx.x == 0) {
    if (shared % 1024 != 0) __trap();
    init_barrier(shared + LT_AT(keys_full), 1), init_barrier(shared + LT_AT(keys_empty), 1);
    init_others(shared);
    publish_barriers();
  }
  __syncthreads();
  return shared;
}

// The loader calls load(), the mover of warp group i's dq calls move(i), and a computing thread calls
// compute(warp group, thread in it).
template <class Load, class Move, class Compute>
__device__ void run_warp_groups(const Load& load, const Move& move, const Compute& compute) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp_group = uniform(thread / kWarpGroup);
  if (warp_group == 2) {
    give_registers_up<kOtherRegisters>();
    if (thread == kLoader) load();
    if (thread == kMovers || thread == kMovers + kWarp) move((thread - kMovers) / kWarp);
    return;
  }
  take_registers<kComputingRegisters>();
  compute(warp_group, thread % kWarpGroup);
}

// Loads all halves of a tile, each of `bytes` bytes. `at.head` counts whole heads, not halves.
template <int kHalves>
__device__ void load_halves(std::uint32_t to, int bytes, const CUtensorMap& map, const TilePlace& at,
                            std::uint32_t full) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    load_tile(to + half * bytes, map, {at.head * kHalves + half, at.t, at.b}, full);
  }
}
// Loads the keys and values of a part of the work. The second part waits until the first one's dk and dv have left the
// same memory.
template <class Shared, class BlockWork>
__device__ void load_keys(const Arguments& x, const BlockWork& work, int part, std::uint32_t shared) {
  constexpr int kHalves = BlockWork::kHalves, kBytes = BlockWork::kKeyTileBytes;
  const TilePlace at{work.g, work.block(part) * BlockWork::kKeys, work.b};
  const std::uint32_t keys_full = shared + LT_AT(keys_full);
  if (part > 0) wait_for(shared + LT_AT(keys_empty), 0);
  arrive_expecting(keys_full, 2 * kHalves * kBytes);
  load_halves<kHalves>(shared + LT_AT(k), kBytes, x.k, at, keys_full);
  load_halves<kHalves>(shared + LT_AT(v), kBytes, x.v, at, keys_full);
}
// Stores dk and dv through the shared memory that held the block's keys and values. A warp group has two Sums of dk,
// which go to w.k(0) and w.k(1), and two of dv, which go to w.v(0) and w.v(1).
template <class T, class Shared, class BlockWork, class Worker>
__device__ void store_keys_gradient(const Arguments& x, const BlockWork& work, const Worker& w, int block,
                                    Sums (&dk)[2], Sums (&dv)[2]) {
  synchronize(kAllComputing, kComputing);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 32; ++i) dk[n][i] *= w.scale;
    store_rounded<T>(w.k(n), dk[n], w.thread);
    store_rounded<T>(w.v(n), dv[n], w.thread);
  }
  fence_shared_for_copies();
  synchronize(kAllComputing, kComputing);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int half = 0; half < BlockWork::kHalves; ++half) {
      const TilePlace at{work.g * BlockWork::kHalves + half, block * BlockWork::kKeys, work.b};
      store_tile(x.dk, at, w.shared + LT_AT(k) + half * BlockWork::kKeyTileBytes);
      store_tile(x.dv, at, w.shared + LT_AT(v) + half * BlockWork::kKeyTileBytes);
    }
    wait_until_read();
    arrive(w.shared + LT_AT(keys_empty));
  }
}

// The buffer through which a warp group's dq goes to its mover: the address in shared memory, and its barriers' there.
struct Handover {
  std::uint32_t dq, full, empty;
};
// Where warp group `i` hands its dq over.
template <class Shared>
__device__ Handover handover(std::uint32_t shared, int i) {
  return {shared + LT_AT(dq) + i * kSumBytes, shared + LT_AT(dq_full) + 8 * i, shared + LT_AT(dq_empty) + 8 * i};
}
// All threads of the warp group arrive at `full`, and the mover at `empty`.
__device__ inline void init_barriers(const Handover& at) {
  init_barrier(at.full, kWarpGroup), init_barrier(at.empty, 1);
}

// Moves one warp group's dq, of the tiles `begin`, `begin` + kStep and so on of each block of keys, channels of
// `half`. The last block of keys that a tile sees stores the tile's sum, and other blocks add to it. For block 0 the
// mover first loads the sum; block 0 then returns the finished dq.
template <int kStep, class BlockWork>
__device__ void move_dq(const Arguments& x, const BlockWork& work, const Handover& at, int begin, int half) {
  constexpr int kHalves = BlockWork::kHalves;
  int* flag = nullptr;  // to be set to `value` when the last store is done
  int value = 0, phase = 0;
  const auto set = [&] {
    if (flag == nullptr) return;
    wait_until_stored();
    fence_global_for_copies();
    set_flag(flag, value);
    flag = nullptr;
  };
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), first = work.first_tile(block), count = work.count(block);
    for (int i = begin; i < count; i += kStep, phase ^= 1) {
      const int head = work.head(i), j = work.tile(first, i), before = j / BlockWork::kTilesOfDiagonal - block;
      const Size tile = (work.row(x, head) * kHalves + half) * work.tiles + j;
      float* const sum = x.sums + tile * (kSumBytes / 4);
      const auto wait_for_others = [&] {
        while (read_flag(x.added + tile) < before) {
        }
        fence_global_for_copies();
      };
      if (block == 0 && before > 0) {
        set();
        wait_for_others();
        arrive_expecting(at.empty, kSumBytes);
        load_bytes(at.dq, sum, kSumBytes, at.empty);
      } else {
        arrive(at.empty);
        set();
      }
      wait_for(at.full, phase);
      if (block == 0) {
        store_tile(x.dq, {head * kHalves + half, j * kQueries, work.b}, at.dq);
      } else if (before == 0) {
        store_bytes(sum, at.dq, kSumBytes);
      } else {
        wait_for_others();
        add_floats(sum, at.dq, kSumBytes);
      }
      wait_until_read();
      if (block > 0) flag = x.added + tile, value = before + 1;
    }
  }
  set();
  wait_until_stored();
}

// Gives a warp group's dq to its mover. `finish`: this block adds last, so dq is scaled and rounded. `add`: it first
// adds the sum of the other blocks, which the mover has loaded. `phase` counts the buffer's uses; `barrier` is the
// number of the warp group's own.
template <class T>
__device__ void hand_over(Sums& dq, const Handover& at, int phase, int barrier, int thread, float scale, bool finish,
                          bool add) {
  wait_for(at.empty, phase & 1);
  const std::uint32_t own = at.dq + thread * 16;
  if (finish) {
    if (add) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float4 sum = load_four(own + 2048 * i);
        dq[4 * i] += sum.x, dq[4 * i + 1] += sum.y, dq[4 * i + 2] += sum.z, dq[4 * i + 3] += sum.w;
      }
      synchronize(barrier, kWarpGroup);  // the rows overwrite the sums
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) dq[i] *= scale;
    store_rounded<T>(at.dq, dq, thread);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) store_four(own + 2048 * i, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
  }
  fence_shared_for_copies();
  arrive(at.full);
}

// Computes P from S, in place. `lse` is the address of the tile's row of lse in shared memory.
__device__ inline void exponentiate(Sums& s, float scale, std::uint32_t lse, int thread) {
  const float scale_log2 = scale * kLog2E;
  const std::uint32_t own = lse + thread % kWarp % 4 * 8;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const float2 x = load_pair(own + 32 * n);
    const float a = -kLog2E * x.x, b = -kLog2E * x.y;
    s[4 * n] = power_of_two(fmaf(s[4 * n], scale_log2, a));
    s[4 * n + 1] = power_of_two(fmaf(s[4 * n + 1], scale_log2, b));
    s[4 * n + 2] = power_of_two(fmaf(s[4 * n + 2], scale_log2, a));
    s[4 * n + 3] = power_of_two(fmaf(s[4 * n + 3], scale_log2, b));
  }
}
// Zeroes P where the key is later than the query. The tile of queries begins `offset` positions after the group of
// keys.
__device__ inline void hide_later_keys(Sums& p, int thread, int offset = 0) {
  const int lane = thread % kWarp, query = 2 * (lane % 4) + offset, key = thread / kWarp * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (query + 8 * n + r % 2 < key + 8 * (r / 2)) p[4 * n + r] = 0;
    }
  }
}
// Computes dS, in registers and in the rows at `to` in shared memory. `delta` is the address of the tile's row.
template <class T>
__device__ void scores_gradient(Operand<T>& ds, const Sums& p, const Sums& dp, std::uint32_t delta, std::uint32_t to,
                                int thread) {
  const std::uint32_t own = delta + thread % kWarp % 4 * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x[] = {load_pair(own + 64 * i), load_pair(own + 64 * i + 32)};
    ds[i].fill([&](int k) {
      const int e = 8 * i + k;
      return p[e] * (dp[e] - (k % 2 == 0 ? x[k / 4].x : x[k / 4].y));
    });
    store_columns(to, ds[i], i, thread);
  }
}

// delta = sum_D(dout * out), kChannels / 8 threads for a row of [B, T, H]. Also clears the flags of the tiles.
template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads)
    attention_delta_kernel(float* delta_BHT, int* added, const T* out_BTHD, const T* dout_BTHD, AttentionShape s) {
  constexpr int kLanes = kChannels / kPack<T>, kHalves = kChannels / 64;
  const Size row = thread_index() / kLanes;
  if (row >= s.B * s.T * s.H) return;
  const Packed<T> out = reinterpret_cast<const Packed<T>*>(out_BTHD)[thread_index()];
  const Packed<T> dout = reinterpret_cast<const Packed<T>*>(dout_BTHD)[thread_index()];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) sum = fmaf(out[i], dout[i], sum);
  sum = warp_sum<kLanes>(sum);
  if (thread_index() % kLanes != 0) return;
  const Size h = row % s.H, t = row / s.H % s.T, b = row / s.H / s.T, head = b * s.H + h;
  delta_BHT[head * s.T + t] = sum;
  if (t % kQueries != 0) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) added[(head * kHalves + half) * (s.T / kQueries) + t / kQueries] = 0;
}

// Launches delta and `backward`, which takes `shared_bytes` of shared memory.
template <class T, int kChannels>
void launch_backward(CudaStream stream, const AttentionBackward& call, void (*backward)(const Arguments),
                     Size shared_bytes) {
  constexpr int kKeys = Work<kChannels>::kKeys;
  const AttentionShape& s = call.shape;
  const TileMaps maps{call.dtype, {s.B, s.T, s.H * kChannels / 64, s.G * kChannels / 64, 64}};
  const HopperWorkspace parts = hopper_workspace(s);
  auto* const workspace = static_cast<std::byte*>(call.workspace);
  auto* const delta_BHT = reinterpret_cast<float*>(workspace + parts.delta);
  auto* const added = reinterpret_cast<int*>(workspace + parts.added);
  const Arguments arguments{maps.queries(call.qkv, kQueries),
                            maps.keys(call.qkv, kKeys),
                            maps.values(call.qkv, kKeys),
                            maps.queries(call.dqkv, kQueries),
                            maps.keys(call.dqkv, kKeys),
                            maps.values(call.dqkv, kKeys),
                            maps.output(call.dout_BTHD, kQueries),
                            static_cast<const float*>(call.lse_BHT),
                            delta_BHT,
                            reinterpret_cast<float*>(workspace),
                            added,
                            static_cast<int>(s.T),
                            static_cast<int>(s.H),
                            static_cast<int>(s.G),
                            static_cast<float>(call.scale),
                            hopper_takes_pairs(s, multiprocessors(stream))};
  const Size threads = s.B * s.T * s.H * (kChannels / kPack<T>);
  launch(stream, attention_delta_kernel<T, kChannels>, (threads + kThreads - 1) / kThreads, kThreads, Size{0},
         delta_BHT, added, static_cast<const T*>(call.out_BTHD), static_cast<const T*>(call.dout_BTHD), s);
  const Size blocks = s.B * s.G * (s.T / kKeys) / (arguments.in_pairs ? 2 : 1);
  launch(stream, backward, blocks, kBlockThreads, shared_bytes, arguments);
}

// Enqueues the backward for heads of 128 channels.
void attention_backward_128(CudaStream stream, const AttentionBackward& call);

}  // namespace lt::kernels::hopper
