// The shared memory of attention's backward for heads of 64 channels on compute capability 9.0, and the thread that
// loads tiles into it.
#pragma once

#include "kernels/cuda/attention_backward_hopper_common.cuh"

namespace lt::kernels::hopper {

using BlockWork = Work<64>;
inline constexpr int kKeyGroups = 2;  // of 64 keys, in each warp group
inline constexpr int kStages = 2;     // tiles of queries in shared memory
inline constexpr int kKeyBytes = BlockWork::kKeyTileBytes;
static_assert(BlockWork::kKeys == 2 * kKeyGroups * 64 && kTileBytes == kKeyGroupBytes);

// The first number of two barriers, one per parity of tiles.
inline constexpr int kScoresGradient = 4;

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

__device__ inline void load_tiles(const Arguments& x, const BlockWork& work, std::uint32_t shared) {
  int n = 0;
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), first = work.first_tile(block), count = work.count(block);
    load_keys<Shared>(x, work, part, shared);
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

}  // namespace lt::kernels::hopper
