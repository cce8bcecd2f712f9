// Attention backward on CUDA cores, without atomics. P = exp(scale q k^T - lse) is recomputed in tiles.
// With delta = sum_D(dout * out):  dv = P^T dout,  dS = P * (dout v^T - delta),  dq = scale dS k,  dk = scale dS^T q
// (Dao et al. 2022, algorithm 4). Three launches: delta; dq, one block per tile of queries; dk and dv, one block per
// tile of keys, which sums over the heads of its group and their queries in order.
#include "kernels/cuda/attention_own.h"
#include "kernels/cuda/attention_tile.cuh"

namespace lt::kernels::own {
namespace {

using namespace tile;

// Queries or keys per tile. Four tiles and one of scores fit in 99 KiB, except for f64 with D above 128: 133 KiB.
template <class A, int DP>
struct BackwardTile {
  static constexpr int kWanted = 64 * 64 / DP * 4 / static_cast<int>(sizeof(A));
  static constexpr int kRows = kWanted < kSide ? kSide : kWanted;
  static constexpr Size kTile = kRows * kStride<A, DP>;  // elements
  static constexpr Size kBytes = static_cast<Size>(sizeof(A)) * (4 * kTile + kRows * kStride<A, kRows>);
};

template <class T>
struct BackwardArrays {
  T* dqkv;
  const T *dout_BTHD, *qkv, *out_BTHD;
  const Arithmetic<T>* lse;  // [B, H, T], or [B, T, H] with documents
  Arithmetic<T>* delta_BHT;
  const std::int32_t* starts_BT;
  bool all;  // or only short documents
};

// One warp per (token, head).
template <class T>
__global__ void __launch_bounds__(kThreads) delta_kernel(BackwardArrays<T> x, AttentionShape s) {
  using A = Arithmetic<T>;
  const Size row = static_cast<Size>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (row >= s.B * s.T * s.H) return;
  A sum = 0;
  for (Size d = threadIdx.x % 32; d < s.D; d += 32) {
    sum += static_cast<A>(x.dout_BTHD[row * s.D + d]) * static_cast<A>(x.out_BTHD[row * s.D + d]);
  }
  sum = warp_sum(sum);
  const Size h = row % s.H, t = row / s.H % s.T, b = row / s.H / s.T;
  if (threadIdx.x % 32 == 0) x.delta_BHT[(b * s.H + h) * s.T + t] = sum;
}

// One block per (tile of queries, sequence, head); the tiles with most keys come first.
template <class T, int DP>
__global__ void __launch_bounds__(kThreads)
    query_gradient_kernel(BackwardArrays<T> x, AttentionShape s, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  using Sizes = BackwardTile<A, DP>;
  constexpr int N = Sizes::kRows, R = N / kSide;
  A* const q = shared_array<A>();
  A* const dout = q + Sizes::kTile;
  A* const k = dout + Sizes::kTile;
  A* const v = k + Sizes::kTile;
  A* const ds = v + Sizes::kTile;

  const Size heads = s.B * s.H, tiles = (s.T + N - 1) / N, block = blockIdx.x;
  const Size q0 = (tiles - 1 - block / heads) * N, b = block % heads / s.H, h = block % s.H, row = s.row();
  const int D = static_cast<int>(s.D), ty = row_of_thread(), tx = column_of_thread();
  const Size q_at = b * s.T * row + h * s.D, k_at = b * s.T * row + (s.H + h * s.G / s.H) * s.D;
  const SeenKeys seen_by = seen_keys(s, x.starts_BT, b);
  const Chosen chosen{seen_by, x.all};
  const Size end = q0 + N < s.T ? q0 + N : s.T, first_query = chosen.first(q0, end);
  if (first_query == end) return;

  A lse[R], delta[R], factor[R], dq[R][DP / kSide];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const Size query = q0 + ty * R + i, at = (b * s.H + h) * s.T + query;
    lse[i] = query < s.T ? x.lse[statistics_at(s, x.starts_BT != nullptr, b, h, query)] : A(0),
    delta[i] = query < s.T ? x.delta_BHT[at] : A(0), factor[i] = scale;
#pragma unroll
    for (int c = 0; c < DP / kSide; ++c) dq[i][c] = 0;
  }
  load_rows<DP, N>(q, x.qkv + q_at, row, q0, s.T, D);
  load_rows<DP, N>(dout, x.dout_BTHD + (b * s.T * s.H + h) * s.D, s.H * s.D, q0, s.T, D);
  for (Size k0 = seen_by.first_seen(first_query) / N * N; k0 <= q0; k0 += N) {
    __syncthreads();  // k, v and ds are free
    load_rows<DP, N>(k, x.qkv + k_at, row, k0, s.T, D);
    load_rows<DP, N>(v, x.qkv + k_at + s.G * s.D, row, k0, s.T, D);
    __syncthreads();
    A score[R][R], dp[R][R];
    dot_rows<DP>(score, q, k, D);
    dot_rows<DP>(dp, dout, v, D);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const Size query = q0 + ty * R + i;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const Size key = k0 + tx + j * kSide;
        const bool seen = key <= query && query < s.T;
        ds[(ty * R + i) * kStride<A, N> + tx + j * kSide] =
            seen ? exponential(scale * score[i][j] - lse[i]) * (dp[i][j] - delta[i]) : A(0);
      }
    }
    if (hides_past(seen_by, q0 + N - 1, k0)) {
      for (int i = 0; i < R; ++i) {
        for (int j = 0; j < R; ++j) {
          const int key = tx + j * kSide;
          if (k0 + key < seen_by.first_seen(q0 + ty * R + i)) ds[(ty * R + i) * kStride<A, N> + key] = 0;
        }
      }
    }
    __syncwarp();
    add_matmul<DP, N>(dq, ds, k);
  }
  store_rows<DP, T>(x.dqkv + q_at, row, q0, s.T, D, dq, factor, chosen);
}

// One block per (tile of keys, sequence, key/value head), those with most queries first. Rows: keys; columns: queries.
template <class T, int DP>
__global__ void __launch_bounds__(kThreads)
    key_gradient_kernel(BackwardArrays<T> x, AttentionShape s, Arithmetic<T> scale) {
  using A = Arithmetic<T>;
  using Sizes = BackwardTile<A, DP>;
  constexpr int N = Sizes::kRows, R = N / kSide;
  A* const k = shared_array<A>();
  A* const v = k + Sizes::kTile;
  A* const q = v + Sizes::kTile;
  A* const dout = q + Sizes::kTile;
  A* const p = dout + Sizes::kTile;  // later dS

  const Size heads = s.B * s.G, block = blockIdx.x;
  const Size k0 = block / heads * N, b = block % heads / s.G, g = block % s.G, row = s.row(), first = b * s.T * row;
  const int D = static_cast<int>(s.D), ty = row_of_thread(), tx = column_of_thread();
  const Size k_at = first + (s.H + g) * s.D, v_at = k_at + s.G * s.D;
  const SeenKeys seen_by = seen_keys(s, x.starts_BT, b);
  const Chosen chosen{seen_by, x.all};
  const Size end = k0 + N < s.T ? k0 + N : s.T;
  if (chosen.first(k0, end) == end) return;
  const Size last_key = chosen.last(k0, end);

  A one[R], factor[R], dk[R][DP / kSide], dv[R][DP / kSide];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    one[i] = 1, factor[i] = scale;
#pragma unroll
    for (int c = 0; c < DP / kSide; ++c) dk[i][c] = 0, dv[i][c] = 0;
  }
  load_rows<DP, N>(k, x.qkv + k_at, row, k0, s.T, D);
  load_rows<DP, N>(v, x.qkv + v_at, row, k0, s.T, D);
  for (Size h = g * s.H / s.G; h < (g + 1) * s.H / s.G; ++h) {
    // Up to the last query that sees a key of this tile.
    for (Size q0 = k0; q0 < s.T && seen_by.first_seen(q0) <= last_key; q0 += N) {
      __syncthreads();  // q, dout and p are free
      load_rows<DP, N>(q, x.qkv + first + h * s.D, row, q0, s.T, D);
      load_rows<DP, N>(dout, x.dout_BTHD + (b * s.T * s.H + h) * s.D, s.H * s.D, q0, s.T, D);
      __syncthreads();
      A score[R][R], dp[R][R];
      dot_rows<DP>(score, k, q, D);
      dot_rows<DP>(dp, v, dout, D);
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const Size query = q0 + tx + j * kSide, at = (b * s.H + h) * s.T + query;
        const A lse = query < s.T ? x.lse[statistics_at(s, x.starts_BT != nullptr, b, h, query)] : A(0);
        const A delta = query < s.T ? x.delta_BHT[at] : A(0);
#pragma unroll
        for (int i = 0; i < R; ++i) {
          const bool seen = k0 + ty * R + i <= query && query < s.T;
          const A probability = seen ? exponential(scale * score[i][j] - lse) : A(0);
          p[(ty * R + i) * kStride<A, N> + tx + j * kSide] = probability;
          dp[i][j] = seen ? probability * (dp[i][j] - delta) : A(0);
        }
      }
      if (hides_past(seen_by, q0 + N - 1, k0)) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
          for (int j = 0; j < R; ++j) {
            const int query = tx + j * kSide;
            if (k0 + ty * R + i < seen_by.first_seen(q0 + query))
              p[(ty * R + i) * kStride<A, N> + query] = 0, dp[i][j] = 0;
          }
        }
      }
      __syncwarp();
      add_matmul<DP, N>(dv, p, dout);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int j = 0; j < R; ++j) p[(ty * R + i) * kStride<A, N> + tx + j * kSide] = dp[i][j];
      }
      __syncwarp();
      add_matmul<DP, N>(dk, p, q);
    }
  }
  store_rows<DP, T>(x.dqkv + k_at, row, k0, s.T, D, dk, factor, chosen);
  store_rows<DP, T>(x.dqkv + v_at, row, k0, s.T, D, dv, one, chosen);
}

}  // namespace

void attention_backward(CudaStream stream, const AttentionBackward& call, Documents documents) {
  const AttentionShape& s = call.shape;
  dispatch_float(call.dtype, [&]<class T>() {
    dispatch_head_size(s.D, [&]<int DP>() {
      using A = Arithmetic<T>;
      using Sizes = BackwardTile<A, DP>;
      const BackwardArrays<T> x{static_cast<T*>(call.dqkv),
                                static_cast<const T*>(call.dout_BTHD),
                                static_cast<const T*>(call.qkv),
                                static_cast<const T*>(call.out_BTHD),
                                static_cast<const A*>(call.lse_BHT),
                                static_cast<A*>(call.workspace),
                                call.starts_BT,
                                documents == Documents::all};
      const A scale = static_cast<A>(call.scale);
      constexpr Size kWarps = kThreads / 32;
      const Size tiles = (s.T + Sizes::kRows - 1) / Sizes::kRows;
      launch(stream, delta_kernel<T>, (s.B * s.T * s.H + kWarps - 1) / kWarps, kThreads, Size{0}, x, s);
      launch(stream, query_gradient_kernel<T, DP>, tiles * s.B * s.H, kThreads, Sizes::kBytes, x, s, scale);
      launch(stream, key_gradient_kernel<T, DP>, tiles * s.B * s.G, kThreads, Sizes::kBytes, x, s, scale);
    });
  });
}

}  // namespace lt::kernels::own
