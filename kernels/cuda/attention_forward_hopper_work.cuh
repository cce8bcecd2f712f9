// The work of a block of threads in attention's forward on compute capability 9.0, its shared memory, and the thread
// that loads tiles into it.
#pragma once

#include <cstddef>

#include "kernels/attention_options.h"
#include "kernels/cuda/hopper.cuh"

namespace lt::kernels::hopper::forward {

inline constexpr int kTile = 64;  // queries or keys of a tile, which has 64 channels
inline constexpr int kTileBytes = kTile * kTileRowBytes;
inline constexpr int kGroups = 4;       // warp groups that compute, tiles of an item
inline constexpr int kQueryStages = 2;  // items whose queries are in shared memory
inline constexpr int kKeyStages = 6;    // tiles of keys and values in shared memory
inline constexpr int kComputing = kGroups * kWarpGroup, kBlockThreads = kComputing + kWarpGroup;
// Registers of a computing thread and of any other thread. The block starts with 96 per thread, which is 65,536 divided
// by the threads and rounded down to a multiple of 8. Only these can be redistributed.
inline constexpr int kComputingRegisters = 112, kOtherRegisters = 32;
static_assert(kComputingRegisters * kComputing + kOtherRegisters * kWarpGroup <= 96 * kBlockThreads);
inline constexpr int kComputingWarps = kComputing / kWarp;  // each gives a stage back
static_assert(hopper_keys(64) % (kGroups * kTile) == 0);

struct alignas(1024) Shared {
  std::byte q[kQueryStages][kGroups][kTileBytes], out[kGroups][kTileBytes];
  std::byte k[kKeyStages][kTileBytes], v[kKeyStages][kTileBytes];
  // A `full` barrier ends its phase when the data have arrived, an `empty` barrier when they may be overwritten.
  std::uint64_t q_full[kQueryStages], q_empty[kQueryStages], full[kKeyStages], empty[kKeyStages];
};
static_assert(sizeof(Shared) <= 227 * 1024);
// The offset of a member of Shared; the .cu file undefines it.
#define LT_AT(member) static_cast<std::uint32_t>(offsetof(Shared, member))

// Tensor maps and pointers of the arrays; dims as in AttentionShape.
struct Arguments {
  CUtensorMap q, k, v, out;
  float* lse_BHT;
  int T, H, G;
  int pairs;  // of a sequence and a key/value head
  float scale;
};

// A position in a ring of stages, and the parity of the current phase of the stage's barriers.
template <int kStages>
struct Ring {
  int stage = 0, parity = 0;
  __device__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// Four tiles of queries of a pair. The pair's tiles are numbered by position, and at each position by query head.
struct Item {
  int b, g, last_tile;  // the pair, and the number of the fourth tile
};

// The items of this block of threads, in rounds. First each block takes whole pairs of its own, one after another. So
// only one pair for each block is in use at a time, and its keys and values stay in L2. All blocks share the remaining
// pairs, fewer than two for each block. Their longest items go first, and every other round goes over the blocks
// backwards, so all blocks get about the same work. The division is fixed: if other kernels occupy multiprocessors for
// long, the blocks that do not fit start when other blocks have ended.
struct Items {
  int round = 0;

  // Gets the next item. Returns false if there is none.
  __device__ bool next(Item& item, const Arguments& x) {
    const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
    const int of_pair = x.T / kTile * (x.H / x.G) / kGroups, own_pairs = max(x.pairs / blocks - 1, 0);
    const int shared_pairs = x.pairs - own_pairs * blocks;
    int pair = 0, i = 0;  // the i-th of the pair, from the longest on
    if (round < own_pairs * of_pair) {
      pair = round / of_pair * blocks + block, i = round % of_pair;
    } else {
      const int n = round - own_pairs * of_pair, at = n * blocks + (n % 2 == 0 ? block : blocks - 1 - block);
      if (at >= shared_pairs * of_pair) return false;
      pair = own_pairs * blocks + at % shared_pairs, i = at / shared_pairs;
    }
    ++round;
    item = {pair / x.G, pair % x.G, (of_pair - i) * kGroups - 1};
    return true;
  }
};

__device__ inline void load_tiles(const Arguments& x, std::uint32_t shared) {
  const int ratio = x.H / x.G;
  Ring<kQueryStages> queries;
  Ring<kKeyStages> keys;
  Items items;
  for (Item item; items.next(item, x); queries.advance()) {
    const std::uint32_t q_full = shared + LT_AT(q_full) + 8 * queries.stage;
    wait_for(shared + LT_AT(q_empty) + 8 * queries.stage, queries.parity ^ 1);
    arrive_expecting(q_full, kGroups * kTileBytes);
    for (int i = 0; i < kGroups; ++i) {
      const int tile = item.last_tile - i;
      load_tile(shared + LT_AT(q) + (queries.stage * kGroups + i) * kTileBytes, x.q,
                {item.g * ratio + tile % ratio, tile / ratio * kTile, item.b}, q_full);
    }
    for (int j = item.last_tile / ratio; j >= 0; --j, keys.advance()) {
      const std::uint32_t full = shared + LT_AT(full) + 8 * keys.stage;
      wait_for(shared + LT_AT(empty) + 8 * keys.stage, keys.parity ^ 1);
      arrive_expecting(full, 2 * kTileBytes);
      load_tile(shared + LT_AT(k) + keys.stage * kTileBytes, x.k, {item.g, j * kTile, item.b}, full);
      load_tile(shared + LT_AT(v) + keys.stage * kTileBytes, x.v, {item.g, j * kTile, item.b}, full);
    }
  }
}

}  // namespace lt::kernels::hopper::forward
