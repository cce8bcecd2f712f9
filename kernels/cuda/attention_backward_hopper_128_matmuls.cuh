// The matmuls of attention's backward for heads of 128 channels on compute capability 9.0, for its two computing warp
// groups.
#pragma once

#include "kernels/cuda/attention_backward_hopper_128_work.cuh"

namespace lt::kernels::hopper::of_128 {

using HeadSums = Sums[kHalves];  // 64 x 128 sums, by half of the channels

// A thread that computes: `thread` 0 to 127 of `warp_group` 0 or 1, which has 64 of the block's keys.
struct Worker {
  std::uint32_t shared;
  int warp_group, thread;
  float scale;

  // The same worker; see computed_anew().
  __device__ Worker anew() const { return {shared, warp_group, computed_anew(thread), scale}; }
  // Addresses in shared memory: a half of the warp group's keys and values, and dS of tile n.
  __device__ std::uint32_t k(int half) const {
    return shared + LT_AT(k) + half * kKeyTileBytes + warp_group * kKeyGroupBytes;
  }
  __device__ std::uint32_t v(int half) const {
    return shared + LT_AT(v) + half * kKeyTileBytes + warp_group * kKeyGroupBytes;
  }
  __device__ std::uint32_t ds(unsigned n) const { return shared + LT_AT(ds) + n % 2 * kKeyTileBytes; }
  __device__ std::uint32_t ds_full(unsigned n) const { return shared + LT_AT(ds_full) + n % 2 * 8; }

  // Call it on each warp when all its threads are done with the barrier's data.
  __device__ void arrive_at_barrier(std::uint32_t barrier) const { arrive_as_warp(barrier, thread % kWarp); }
};

// Starts sums = a b^T over 128 channels, a of the warp group's 64 keys or values, b a tile of queries or their
// gradients.
template <class T>
__device__ void start_transposed(Sums& sums, std::uint32_t a, std::uint32_t b) {
  const TileDescriptor keys(a), queries(b);
  begin(sums);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    multiply<T, 0, 0>(sums, keys.at(i / 4 * kKeyTileBytes + i % 4 * 32), queries.at(i / 4 * kTileBytes + i % 4 * 32),
                      i > 0);
  }
  wgmma_commit();
}
// Starts sums += a b. a has keys as rows and queries as columns; b is a tile of queries or their gradients.
template <class T>
__device__ void start_adding(HeadSums& sums, const Operand<T>& a, std::uint32_t b) {
  const TileDescriptor queries(b, kTileBytes);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<T>(sums[0], sums[1], a[i], queries.at(2048 * i));
  wgmma_commit();
}
// Starts the warp group's half of dq = dS^T k.
template <class T>
__device__ void start_dq(Sums& dq, const Worker& w, unsigned n) {
  const TileDescriptor ds(w.ds(n)), k(w.shared + LT_AT(k) + w.warp_group * kKeyTileBytes);
  begin(dq);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < BlockWork::kKeys / 16; ++i) multiply<T, 1, 1>(dq, ds.at(2048 * i), k.at(2048 * i), i > 0);
  wgmma_commit();
}
using hopper::changed;
__device__ inline void changed(HeadSums& sums) { changed(sums[0]), changed(sums[1]); }

// Starts S of tile n when its queries have arrived.
template <class T>
__device__ void start_scores(Sums& s, const Worker& w, unsigned n) {
  wait_for(q_full_at(w.shared, n), q_parity(n));
  start_transposed<T>(s, w.k(0), q_at(w.shared, n));
}
// Computes dq of the preceding tile when both warp groups' dS is in shared memory, and starts its dk. All earlier
// matmuls end here.
template <class T>
__device__ void end_last_tile(Sums& dq, HeadSums& dk, const Operand<T>& ds, const Worker& w, unsigned n) {
  const unsigned last = n - 1;
  wait_for(w.ds_full(last), static_cast<int>(last / 2 % 2));
  start_dq<T>(dq, w, last);
  wgmma_wait<0>();
  start_adding<T>(dk, ds, q_at(w.shared, last));
}
// Gives dq of the preceding tile to the mover. `finish` and `add` as in hopper::hand_over().
template <class T>
__device__ void hand_over_last(Sums& dq, const Worker& w, unsigned n, bool finish, bool add) {
  changed(dq);
  hand_over<T>(dq, handover<Shared>(w.shared, w.warp_group), static_cast<int>((n - 1) % 2),
               kOneWarpGroup + w.warp_group, w.thread, w.scale, finish, add);
}
__device__ inline void end_last_dk(HeadSums& dk, const Worker& w, unsigned n) {
  changed(dk);
  w.arrive_at_barrier(q_empty_at(w.shared, n - 1));
}

// Computes P, dS and dv of tile n, whose S has been started, and dq and dk of tile n - 1. Starts S of the next tile.
// Matmuls run in this order: the last dq, the last dk, dP, dv, the next S. P is computed while the last dk and dP run,
// and dS while dv runs. The tile of queries begins `offset` positions after the warp group's keys.
//
// ptxas gives all sums and operands of matmuls between two wgmma_wait<0>() their own registers. So the waits are
// placed to need the fewest.
template <class T, bool kFirst>
__device__ void compute_tile(HeadSums& dk, HeadSums& dv, Sums& s, Operand<T>& ds, const Worker& w, unsigned n,
                             unsigned next, int offset, bool finish_last, bool add_to_last) {
  if constexpr (!kFirst) {
    Sums dq;
    end_last_tile<T>(dq, dk, ds, w, n);
    hand_over_last<T>(dq, w, n, finish_last, add_to_last);
  }
  Sums dp;
  wait_for(dout_full_at(w.shared, n), dout_parity(n));
  start_transposed<T>(dp, w.v(0), dout_at(w.shared, n));
  if constexpr (kFirst) wgmma_wait<1>();
  changed(s);
  exponentiate(s, w.scale, lse_at(w.shared, n), w.thread);
  if (offset < kQueries) hide_later_keys(s, w.thread, offset);
  wgmma_wait<0>();
  changed(dp);
  if constexpr (!kFirst) end_last_dk(dk, w, n);
  Operand<T> p;
  round_to<T>(p, s);
  start_adding<T>(dv, p, dout_at(w.shared, n));
  scores_gradient<T>(ds, s, dp, delta_at(w.shared, n), w.ds(n) + w.warp_group * kKeyGroupBytes, w.thread);
  fence_shared_for_copies();
  w.arrive_at_barrier(w.ds_full(n));
  wgmma_wait<0>();
  changed(dv);
  w.arrive_at_barrier(dout_empty_at(w.shared, n));
  start_scores<T>(s, w, next);
}

template <class T>
__device__ void compute(const Arguments& x, const BlockWork& work, const Worker& w) {
  unsigned n = 0;  // tiles of all blocks of keys
  const int of_diagonal = BlockWork::kTilesOfDiagonal * work.queries_of_group;
#pragma unroll 1
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), count = work.count(block);
    HeadSums dk, dv;
    Operand<T> ds;
#pragma unroll
    for (int i = 0; i < 32; ++i) dk[0][i] = dk[1][i] = dv[0][i] = dv[1][i] = 0;
    wait_for(w.shared + LT_AT(keys_full), part);
    const auto offset = [&](int i) {  // of tile i; it matters on the diagonal only
      return ((i < work.queries_of_group ? 0 : i < of_diagonal ? 1 : 2) - w.warp_group) * kQueries;
    };
    const bool finish = block == 0;
    Sums s;
    start_scores<T>(s, w, n);
    compute_tile<T, true>(dk, dv, s, ds, w.anew(), n, n + 1, offset(0), false, false);
    ++n;
#pragma unroll 1
    for (int i = 1; i < count; ++i, ++n) {
      // The last S is computed again and not used. A branch around it would make ptxas run all matmuls one by one.
      const unsigned next = i == count - 1 ? n : n + 1;
      compute_tile<T, false>(dk, dv, s, ds, w.anew(), n, next, offset(i), finish, i > of_diagonal);
    }
    Sums dq;
    end_last_tile<T>(dq, dk, ds, w, n);
    hand_over_last<T>(dq, w.anew(), n, finish, count > of_diagonal);
    wgmma_wait<0>();
    end_last_dk(dk, w, n);
    store_keys_gradient<T, Shared>(x, work, w.anew(), block, dk, dv);
  }
  if (threadIdx.x == 0) wait_until_stored();
}

}  // namespace lt::kernels::hopper::of_128
