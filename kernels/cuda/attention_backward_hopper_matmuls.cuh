// The matmuls of attention's backward for heads of 64 channels on compute capability 9.0, for its two computing warp
// groups.
#pragma once

#include "kernels/cuda/attention_backward_hopper_work.cuh"

namespace lt::kernels::hopper {

// A thread that computes: `thread` 0 to 127 of `warp_group` 0 or 1.
struct Worker {
  std::uint32_t shared;
  int warp_group, thread;
  float scale;

  // Addresses in shared memory.
  __device__ std::uint32_t k(int own) const { return shared + LT_AT(k) + key_group(own) * kKeyGroupBytes; }
  __device__ std::uint32_t v(int own) const { return shared + LT_AT(v) + key_group(own) * kKeyGroupBytes; }
  __device__ std::uint32_t q(int stage) const { return shared + LT_AT(q) + stage * kTileBytes; }
  __device__ std::uint32_t dout(int stage) const { return shared + LT_AT(dout) + stage * kTileBytes; }

  __device__ int lane() const { return thread % kWarp; }
  __device__ int key_group(int own) const { return 2 * own + warp_group; }  // of the block's four
};

// sums = a b^T, a of 64 keys or values, b a tile of queries or their gradients.
template <class T>
__device__ void wgmma_start(Sums& sums, std::uint32_t a, std::uint32_t b) {
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<T, 0, 0>(sums, descriptor(a + 32 * i), descriptor(b + 32 * i), i > 0);
}
// sums += a b. a has keys as rows and queries as columns; b is a tile of queries.
template <class T>
__device__ void start_adding(Sums& sums, const Operand<T>& a, std::uint32_t tile) {
#pragma unroll
  for (int i = 0; i < 4; ++i) multiply<T>(sums, a[i], descriptor(tile + 2048 * i));
}

// Computes dq of a tile from its dS and the block's first kSeenGroups groups of keys, and gives it to the mover.
// `finish`: this block adds last, so dq is scaled and rounded. `add`: it first adds the sum of the other blocks, which
// the mover has loaded.
template <class T, int kSeenGroups>
__device__ void give_dq(const Worker& w, int n, bool finish, bool add) {
  const TileDescriptor ds(w.shared + LT_AT(ds) + n % 2 * kKeyBytes), k(w.shared + LT_AT(k));
  Sums dq;
  begin(dq);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4 * kSeenGroups; ++i) {
    multiply<T, 1, 1>(dq, ds.at(2048 * i), k.at(2048 * i), i > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  changed(dq);
  hand_over<T>(dq, handover<Shared>(w.shared, w.warp_group), n / 2, kOneWarpGroup + w.warp_group, w.thread, w.scale,
               finish, add);
}

// Call it on each warp when it has read a stage.
__device__ inline void give_back(const Worker& w, int stage) {
  arrive_as_warp(w.shared + LT_AT(empty) + 8 * stage, w.lane());
}

// Starts S and dP of one of the warp group's groups of keys.
template <class T>
__device__ void start_group(Sums& s, Sums& dp, const Worker& w, int own, int stage) {
  begin(s), begin(dp);
  wgmma_fence();
  wgmma_start<T>(s, w.k(own), w.q(stage));
  wgmma_commit();
  wgmma_start<T>(dp, w.v(own), w.dout(stage));
  wgmma_commit();
}
// S is done, dP may still run. Starts dv += P dout, and computes dS.
template <class T>
__device__ void use_group(Sums& s, Sums& dp, Sums& dv, Operand<T>& p, Operand<T>& ds, const Worker& w, int own,
                          int stage, int n, bool diagonal) {
  changed(s);
  exponentiate(s, w.scale, w.shared + LT_AT(lse) + stage * kQueries * 4, w.thread);
  if (diagonal) hide_later_keys(s, w.thread);
  round_to<T>(p, s);
  wgmma_fence();
  start_adding<T>(dv, p, w.dout(stage));
  wgmma_commit();
  wgmma_wait<1>();
  changed(dp);
  scores_gradient<T>(ds, s, dp, w.shared + LT_AT(delta) + stage * kQueries * 4,
                     w.shared + LT_AT(ds) + n % 2 * kKeyBytes + w.key_group(own) * kKeyGroupBytes, w.thread);
}

// Ends a warp group's dS of a tile. The warp group whose turn it is waits for the other one's dS and calls give().
template <class Give>
__device__ void end_scores_gradient(const Worker& w, int n, const Give& give) {
  fence_shared_for_copies();
  if (n % 2 == w.warp_group) {
    synchronize(kScoresGradient + n % 2, kComputing);
    give();
  } else {
    arrive_at(kScoresGradient + n % 2, kComputing);
  }
}

// The t-th tile of the diagonal (0 to 3). Its queries see the block's groups of keys 0 to t.
template <class T>
__device__ void compute_on_diagonal(Sums (&dk)[kKeyGroups], Sums (&dv)[kKeyGroups], const Worker& w, int n, int t,
                                    bool finish) {
  const int stage = n % kStages;
  wait_for(w.shared + LT_AT(full) + 8 * stage, n / kStages & 1);
#pragma unroll
  for (int own = 0; own < kKeyGroups; ++own) {
    if (w.key_group(own) > t) continue;
    Sums s, dp;
    Operand<T> p, ds;
    start_group<T>(s, dp, w, own, stage);
    wgmma_wait<1>();
    use_group<T>(s, dp, dv[own], p, ds, w, own, stage, n, w.key_group(own) == t);
    wgmma_fence();
    start_adding<T>(dk[own], ds, w.q(stage));
    wgmma_commit();
    wgmma_wait<0>();
    changed(dk[own]), changed(dv[own]);
  }
  give_back(w, stage);
  end_scores_gradient(w, n, [&] {
    if (t == 0) {
      give_dq<T, 1>(w, n, finish, false);
    } else if (t == 1) {
      give_dq<T, 2>(w, n, finish, false);
    } else if (t == 2) {
      give_dq<T, 3>(w, n, finish, false);
    } else {
      give_dq<T, 4>(w, n, finish, false);
    }
  });
}

// A tile below the diagonal. S and dP of the second group are computed while the first group's dS is used.
template <class T>
__device__ void compute_below(Sums (&dk)[kKeyGroups], Sums (&dv)[kKeyGroups], const Worker& w, int n, bool finish) {
  static_assert(kKeyGroups == 2);
  const int stage = n % kStages;
  wait_for(w.shared + LT_AT(full) + 8 * stage, n / kStages & 1);
  Operand<T> p, ds;
  Sums s0, dp0;
  start_group<T>(s0, dp0, w, 0, stage);
  wgmma_wait<1>();
  use_group<T>(s0, dp0, dv[0], p, ds, w, 0, stage, n, false);
  wgmma_wait<0>();
  changed(dv[0]);

  Sums s1, dp1;
  begin(s1), begin(dp1);
  wgmma_fence();
  wgmma_start<T>(s1, w.k(1), w.q(stage));
  wgmma_commit();
  start_adding<T>(dk[0], ds, w.q(stage));
  wgmma_start<T>(dp1, w.v(1), w.dout(stage));
  wgmma_commit();
  wgmma_wait<1>();
  use_group<T>(s1, dp1, dv[1], p, ds, w, 1, stage, n, false);
  changed(dk[0]);
  wgmma_fence();
  start_adding<T>(dk[1], ds, w.q(stage));
  wgmma_commit();
  end_scores_gradient(w, n, [&] { give_dq<T, 2 * kKeyGroups>(w, n, finish, true); });
  wgmma_wait<0>();
  changed(dk[1]), changed(dv[1]);
  give_back(w, stage);
}

template <class T>
__device__ void compute(const Arguments& x, const BlockWork& work, const Worker& w) {
  int n = 0;
#pragma unroll 1
  for (int part = 0; part < work.parts; ++part) {
    const int block = work.block(part), end = n + work.count(block);
    Sums dk[kKeyGroups], dv[kKeyGroups];
#pragma unroll
    for (int i = 0; i < 32; ++i) dk[0][i] = dk[1][i] = dv[0][i] = dv[1][i] = 0;
    wait_for(w.shared + LT_AT(keys_full), part);
#pragma unroll 1
    for (int i = 0; i < BlockWork::kTilesOfDiagonal * work.queries_of_group; ++i, ++n) {
      compute_on_diagonal<T>(dk, dv, w, n, work.tile(0, i), block == 0);
    }
#pragma unroll 1
    for (; n < end; ++n) compute_below<T>(dk, dv, w, n, block == 0);
    store_keys_gradient<T, Shared>(x, work, w, block, dk, dv);
  }
  if (threadIdx.x == 0) wait_until_stored();
}

}  // namespace lt::kernels::hopper
