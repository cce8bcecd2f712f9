// The work of a block of threads in attention's backward on compute capability 9.0, its shared memory, and the threads
// that move tiles between shared and global memory.
#pragma once

#include <cstddef>

#include "kernels/attention_options.h"
#include "kernels/cuda/hopper.cuh"

namespace lt::kernels::hopper {

// Channels of a head, queries of a tile, keys of a block.
inline constexpr int kChannels = 64, kQueries = kHopperQueries, kKeys = kHopperKeys;
inline constexpr int kKeyGroups = 2;  // of 64 keys, in each warp group
inline constexpr int kStages = 2;     // tiles of queries in shared memory
inline constexpr int kTilesOfDiagonal = kKeys / kQueries;
inline constexpr int kTileBytes = kQueries * kTileRowBytes, kKeyBytes = kKeys * kTileRowBytes;
inline constexpr int kKeyGroupBytes = 64 * kTileRowBytes;  // 64 keys
inline constexpr int kSumBytes = kQueries * kChannels * 4;
static_assert(kTileRowBytes == kChannels * 2 && kKeys == 2 * kKeyGroups * 64 && kTileBytes == kKeyGroupBytes);

inline constexpr int kComputing = 2 * kWarpGroup, kBlockThreads = kComputing + kWarpGroup;
// The thread that loads tiles, and the first of the two that move dq, each the first thread of its warp.
inline constexpr int kLoader = kComputing, kMovers = kComputing + kWarp;
// Registers of a computing thread and of any other thread. The block starts with 168 per thread, which is 65,536
// divided by the threads and rounded down to a multiple of 8. Only these can be redistributed.
inline constexpr int kComputingRegisters = 240, kOtherRegisters = 24;
static_assert(kComputingRegisters * kComputing + kOtherRegisters * kWarpGroup <= 168 * kBlockThreads);
// Numbers of the block's barriers. kOneWarpGroup is the first of two, one per warp group; kScoresGradient is the first
// of two, one per parity of tiles.
inline constexpr int kAllComputing = 1, kOneWarpGroup = 2, kScoresGradient = 4;

struct alignas(1024) Shared {
  std::byte k[kKeyBytes], v[kKeyBytes];  // dk and dv pass through them at the end
  std::byte q[kStages][kTileBytes], dout[kStages][kTileBytes];
  std::byte ds[2][kKeyBytes];  // of two tiles, keys as rows
  std::byte dq[2][kSumBytes];  // of each warp group
  float lse[kStages][kQueries], delta[kStages][kQueries];
  // A `full` barrier ends its phase when the data have arrived, an `empty` barrier when they may be overwritten. The
  // data are keys and values, a stage, or a warp group's dq.
  std::uint64_t keys_full, keys_empty, full[kStages], empty[kStages], dq_full[2], dq_empty[2];
};
static_assert(sizeof(Shared) <= 227 * 1024 && offsetof(Shared, lse) % 16 == 0);
// The offset of a member of Shared; the .cu file undefines it.
#define LT_AT(member) static_cast<std::uint32_t>(offsetof(Shared, member))

// Tensor maps and pointers of the arrays; dims as in AttentionShape.
struct Arguments {
  CUtensorMap q, k, v, dq, dk, dv, dout;
  const float *lse_BHT, *delta_BHT;
  float* sums;  // of dq, [B, H, T / 64][8][128][4]: [n][t] holds elements 4 n to 4 n + 3 of thread t's Sums
  int* added;   // [B, H, T / 64]: how many blocks of keys have added to a tile
  int T, H, G;
  float scale;
  bool in_pairs;
};

// The work of a block of threads: one block of keys, or a pair, the i-th from the last and then the i-th. All pairs
// have the same work.
struct Work {
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

__device__ inline void load_tiles(const Arguments& x, const Work& work, std::uint32_t shared) {
  int n = 0;
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), first = work.first_tile(block), count = work.count(block);
    const std::uint32_t keys_full = shared + LT_AT(keys_full);
    if (part > 0) wait_for(shared + LT_AT(keys_empty), 0);
    arrive_expecting(keys_full, 2 * kKeyBytes);
    load_tile(shared + LT_AT(k), x.k, {work.g, block * kKeys, work.b}, keys_full);
    load_tile(shared + LT_AT(v), x.v, {work.g, block * kKeys, work.b}, keys_full);
    for (int i = 0; i < count; ++i, ++n) {
      const int stage = n % kStages, head = work.head(i), t = work.tile(first, i) * kQueries;
      const std::uint32_t full = shared + LT_AT(full) + 8 * stage;
      if (n >= kStages) wait_for(shared + LT_AT(empty) + 8 * stage, (n / kStages - 1) & 1);
      arrive_expecting(full, 2 * kTileBytes + 2 * kQueries * 4);
      load_tile(shared + LT_AT(q) + stage * kTileBytes, x.q, {head, t, work.b}, full);
      load_tile(shared + LT_AT(dout) + stage * kTileBytes, x.dout, {head, t, work.b}, full);
      const Size at = work.row(x, head) * x.T + t;
      load_bytes(shared + LT_AT(lse) + stage * kQueries * 4, x.lse_BHT + at, kQueries * 4, full);
      load_bytes(shared + LT_AT(delta) + stage * kQueries * 4, x.delta_BHT + at, kQueries * 4, full);
    }
  }
}

// The movers take tiles in turn. An even number of tiles keeps each mover's parity from one block of keys to the next.
static_assert(kTilesOfDiagonal % 2 == 0);

// Moves one warp group's dq. The last block of keys that a tile sees stores the tile's sum, and other blocks add to it.
// For block 0 the mover first loads the sum; block 0 then returns the finished dq.
__device__ inline void move_dq(const Arguments& x, const Work& work, std::uint32_t shared, int warp_group) {
  const std::uint32_t dq = shared + LT_AT(dq) + warp_group * kSumBytes;
  const std::uint32_t full = shared + LT_AT(dq_full) + 8 * warp_group,
                      empty = shared + LT_AT(dq_empty) + 8 * warp_group;
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
    for (int i = warp_group; i < count; i += 2, phase ^= 1) {
      const int head = work.head(i), j = work.tile(first, i), before = j / kTilesOfDiagonal - block;
      const Size tile = work.row(x, head) * work.tiles + j;
      float* const sum = x.sums + tile * (kQueries * kChannels);
      const auto wait_for_others = [&] {
        while (read_flag(x.added + tile) < before) {
        }
        fence_global_for_copies();
      };
      if (block == 0 && before > 0) {
        set();
        wait_for_others();
        arrive_expecting(empty, kSumBytes);
        load_bytes(dq, sum, kSumBytes, empty);
      } else {
        arrive(empty);
        set();
      }
      wait_for(full, phase);
      if (block == 0) {
        store_tile(x.dq, {head, j * kQueries, work.b}, dq);
      } else if (before == 0) {
        store_bytes(sum, dq, kSumBytes);
      } else {
        wait_for_others();
        add_floats(sum, dq, kSumBytes);
      }
      wait_until_read();
      if (block > 0) flag = x.added + tile, value = before + 1;
    }
  }
  set();
  wait_until_stored();
}

}  // namespace lt::kernels::hopper
