// Attention forward on CUDA cores. Each block takes a tile of queries of one head and visits the tiles of keys in order
// with a running softmax (Dao et al. 2022, algorithm 1; Milakov & Gimelshein 2018). Keys and values share one tile of
// memory.
#include "kernels/cuda/attention_own.h"
#include "kernels/cuda/attention_tile.cuh"

namespace lt::kernels::own {
namespace {

using namespace tile;

// Queries and keys per tile. They fit in 99 KiB of shared memory, the least of any device since compute capability 8.0.
template <class A, int DP>
struct ForwardTile {
  static constexpr int kQueries = (DP == 256 ? 32 : 64) * 4 / static_cast<int>(sizeof(A));
  static constexpr int kKeys = (DP == 64 ? 64 : 32) * 4 / static_cast<int>(sizeof(A));
  static constexpr Size kBytes =
      static_cast<Size>(sizeof(A)) * ((kQueries + kKeys) * kStride<A, DP> + kQueries * kStride<A, kKeys>);
};

// One block per (tile of queries, sequence, head); the tiles with most keys come first.
template <class T, int DP>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(T* out_BTHD, Arithmetic<T>* lse, const T* qkv, const std::int32_t* starts_BT, bool all,
                   AttentionShape s, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  using Sizes = ForwardTile<A, DP>;
  constexpr int N = Sizes::kQueries, K = Sizes::kKeys, R = N / kSide, C = K / kSide;
  A* const q = shared_array<A>();
  A* const kv = q + N * kStride<A, DP>;
  A* const p = kv + K * kStride<A, DP>;

  const Size heads = s.B * s.H, tiles = (s.T + N - 1) / N, block = blockIdx.x;
  const Size q0 = (tiles - 1 - block / heads) * N, b = block % heads / s.H, h = block % s.H, row = s.row();
  const int D = static_cast<int>(s.D), ty = row_of_thread(), tx = column_of_thread();
  const T* const q_TD = qkv + b * s.T * row + h * s.D;
  const T* const k_TD = qkv + b * s.T * row + (s.H + h * s.G / s.H) * s.D;
  const T* const v_TD = k_TD + s.G * s.D;
  const SeenKeys seen = seen_keys(s, starts_BT, b);
  const Chosen chosen{seen, all};
  const Size end = q0 + N < s.T ? q0 + N : s.T;  // end of the queries, and of the keys that the last one sees
  const Size first = chosen.first(q0, end);
  if (first == end) return;

  A max[R], sum[R], out[R][DP / kSide];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    max[i] = hidden_score<A>(), sum[i] = 0;
#pragma unroll
    for (int c = 0; c < DP / kSide; ++c) out[i][c] = 0;
  }
  load_rows<DP, N>(q, q_TD, row, q0, s.T, D);
  for (Size k0 = seen.first_seen(first) / K * K; k0 < end; k0 += K) {
    __syncthreads();  // kv is free
    load_rows<DP, K>(kv, k_TD, row, k0, s.T, D);
    __syncthreads();
    A score[R][C];
    dot_rows<DP>(score, q, kv, D);
    const bool past = hides_past(seen, q0 + N - 1, k0);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const Size query = q0 + ty * R + i;
      A highest = max[i];
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const Size key = k0 + tx + j * kSide;
        score[i][j] = key <= query && key < s.T ? score[i][j] * scale : hidden_score<A>();
        highest = score[i][j] > highest ? score[i][j] : highest;
      }
      if (past) {  // rare: masks the keys before the window or document, then takes the maximum again
        highest = max[i];
#pragma unroll
        for (int j = 0; j < C; ++j) {
          if (k0 + tx + j * kSide < seen.first_seen(query)) score[i][j] = hidden_score<A>();
          highest = score[i][j] > highest ? score[i][j] : highest;
        }
      }
      highest = row_max(highest);
      A total = 0;
#pragma unroll
      for (int j = 0; j < C; ++j) {
        const A x = exponential(score[i][j] - highest);
        p[(ty * R + i) * kStride<A, K> + tx + j * kSide] = x;
        total += x;
      }
      const A rescale = exponential(max[i] - highest);
      sum[i] = sum[i] * rescale + row_sum(total);
      max[i] = highest;
#pragma unroll
      for (int c = 0; c < DP / kSide; ++c) out[i][c] *= rescale;
    }
    __syncthreads();
    load_rows<DP, K>(kv, v_TD, row, k0, s.T, D);
    __syncthreads();
    add_matmul<DP, K>(out, p, kv);
  }

  A norm[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const Size query = q0 + ty * R + i;
    norm[i] = A(1) / sum[i];
    if (tx == 0 && query < s.T && chosen.has(query)) {
      lse[statistics_at(s, starts_BT != nullptr, b, h, query)] = max[i] + logarithm(sum[i]);
    }
  }
  store_rows<DP, T>(out_BTHD + (b * s.T * s.H + h) * s.D, s.H * s.D, q0, s.T, D, out, norm, chosen);
}

}  // namespace

void attention_forward(CudaStream stream, const AttentionForward& call, Documents documents) {
  const AttentionShape& s = call.shape;
  dispatch_float(call.dtype, [&]<class T>() {
    dispatch_head_size(s.D, [&]<int DP>() {
      using A = Arithmetic<T>;
      using Sizes = ForwardTile<A, DP>;
      const Size blocks = (s.T + Sizes::kQueries - 1) / Sizes::kQueries * s.B * s.H;
      launch(stream, forward_kernel<T, DP>, blocks, kThreads, Sizes::kBytes, static_cast<T*>(call.out_BTHD),
             static_cast<A*>(call.lse_BHT), static_cast<const T*>(call.qkv), call.starts_BT,
             documents == Documents::all, s, static_cast<A>(call.scale));
    });
  });
}

}  // namespace lt::kernels::own
