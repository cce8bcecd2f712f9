// The shared memory of attention's backward for heads of 128 channels on compute capability 9.0, and the thread that
// loads tiles into it.
#pragma once

#include "kernels/cuda/attention_backward_hopper_common.cuh"

namespace lt::kernels::hopper::of_128 {

using BlockWork = Work<128>;
inline constexpr int kHalves = BlockWork::kHalves, kKeyTileBytes = BlockWork::kKeyTileBytes;
inline constexpr int kQueryStages = 4, kOutputStages = 2;  // tiles of q and of dout in shared memory
static_assert(BlockWork::kKeys == 2 * 64);                 // 64 for each warp group

struct alignas(1024) Shared {
  std::byte k[kHalves][kKeyTileBytes], v[kHalves][kKeyTileBytes];  // dk and dv pass through them at the end
  std::byte q[kQueryStages][kHalves][kTileBytes], dout[kOutputStages][kHalves][kTileBytes];
  std::byte ds[2][kKeyTileBytes];    // of two tiles, keys as rows
  std::byte dq[kHalves][kSumBytes];  // each warp group computes one half
  float lse[kQueryStages][kQueries], delta[kOutputStages][kQueries];
  // A `full` barrier ends its phase when the data have arrived, an `empty` barrier when they may be overwritten. The
  // data are keys and values, a stage of q and lse, a stage of dout and delta, dS, or a warp group's dq.
  std::uint64_t keys_full, keys_empty, q_full[kQueryStages], q_empty[kQueryStages], dout_full[kOutputStages],
      dout_empty[kOutputStages], ds_full[2], dq_full[kHalves], dq_empty[kHalves];
};
static_assert(sizeof(Shared) <= 227 * 1024 && offsetof(Shared, lse) % 16 == 0);

// Stages are used in turn. Returns the parity of the phase that ends when the n-th tile has arrived.
__device__ inline int q_parity(unsigned n) { return static_cast<int>(n / kQueryStages % 2); }
__device__ inline int dout_parity(unsigned n) { return static_cast<int>(n / kOutputStages % 2); }
// Addresses in shared memory.
__device__ inline std::uint32_t q_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(q) + n % kQueryStages * (kHalves * kTileBytes);
}
__device__ inline std::uint32_t dout_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(dout) + n % kOutputStages * (kHalves * kTileBytes);
}
__device__ inline std::uint32_t lse_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(lse) + n % kQueryStages * (kQueries * 4);
}
__device__ inline std::uint32_t delta_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(delta) + n % kOutputStages * (kQueries * 4);
}
__device__ inline std::uint32_t q_full_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(q_full) + n % kQueryStages * 8;
}
__device__ inline std::uint32_t q_empty_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(q_empty) + n % kQueryStages * 8;
}
__device__ inline std::uint32_t dout_full_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(dout_full) + n % kOutputStages * 8;
}
__device__ inline std::uint32_t dout_empty_at(std::uint32_t shared, unsigned n) {
  return shared + LT_AT(dout_empty) + n % kOutputStages * 8;
}

__device__ inline void load_tiles(const Arguments& x, const BlockWork& work, std::uint32_t shared) {
  unsigned n = 0;
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), first = work.first_tile(block), count = work.count(block);
    load_keys<Shared>(x, work, part, shared);
#pragma unroll 1
    for (int i = 0; i < count; ++i, ++n) {
      const int head = work.head(i), t = work.tile(first, i) * kQueries;
      const Size at = work.row(x, head) * x.T + t;
      const std::uint32_t q_full = q_full_at(shared, n), dout_full = dout_full_at(shared, n);
      // A new barrier counts as one whose preceding phase, of parity 1, has ended. So the first uses do not wait.
      wait_for(q_empty_at(shared, n), q_parity(n) ^ 1);
      arrive_expecting(q_full, kHalves * kTileBytes + kQueries * 4);
      load_halves<kHalves>(q_at(shared, n), kTileBytes, x.q, {head, t, work.b}, q_full);
      load_bytes(lse_at(shared, n), x.lse_BHT + at, kQueries * 4, q_full);
      wait_for(dout_empty_at(shared, n), dout_parity(n) ^ 1);
      arrive_expecting(dout_full, kHalves * kTileBytes + kQueries * 4);
      load_halves<kHalves>(dout_at(shared, n), kTileBytes, x.dout, {head, t, work.b}, dout_full);
      load_bytes(delta_at(shared, n), x.delta_BHT + at, kQueries * 4, dout_full);
    }
  }
}

}  // namespace lt::kernels::hopper::of_128
