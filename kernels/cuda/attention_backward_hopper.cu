// Attention's backward for heads of 64 channels on the tensor cores of compute capability 9.0.
//
// A block of threads takes 256 keys of one key/value head and goes over the queries that see them, 64 of one query head
// at a time, in two warp groups with two groups of 64 keys each. Per group S = k q^T, P = exp(scale S - lse),
// dP = v dout^T, dS = P (dP - delta), dv += P dout, dk += dS q (Dao 2023, "FlashAttention-2", algorithm 2). Rows are
// keys, so P and dS are operands of dv and dk without leaving their registers. Only dq = dS^T k reads dS from shared
// memory; the warp groups take turns to compute it, for all 256 keys.
//
// A query's dq is a sum over blocks of keys, in f32, from the last block that it sees to the first. Each block waits
// until the preceding one has added its term. So the bits are the same each time, and the block that adds last rounds
// dq without another pass. The wait is short, because a block that adds earlier begins nearer to the query.
//
// The wait cannot deadlock. A single block of keys waits only for blocks of threads of lower number, which devices
// start first (CUDA does not promise it; CUB's scans rely on it too). A pair also waits for other pairs of its head,
// and hopper_takes_pairs() keeps these few enough to run together.
//
// A third warp group computes nothing: one of its threads loads tiles, and two others move the warp groups' dq to
// global memory.
#include "kernels/cuda/attention_hopper.h"

#include "kernels/attention_options.h"
#include "kernels/cuda/attention_backward_hopper_matmuls.cuh"
#include "kernels/cuda/attention_hopper_maps.h"

namespace lt::kernels::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(kBlockThreads, 1) attention_backward_kernel(const __grid_constant__ Arguments x) {
  extern __shared__ __align__(1024) std::byte shared_memory[];
  const std::uint32_t shared = shared_address(shared_memory);
  if (threadIdx.x == 0) {
    if (shared % 1024 != 0) __trap();
    init_barrier(shared + LT_AT(keys_full), 1), init_barrier(shared + LT_AT(keys_empty), 1);
    for (int i = 0; i < kStages; ++i) {
      init_barrier(shared + LT_AT(full) + 8 * i, 1), init_barrier(shared + LT_AT(empty) + 8 * i, kComputing / kWarp);
    }
    for (int i = 0; i < 2; ++i) {
      init_barrier(shared + LT_AT(dq_full) + 8 * i, kWarpGroup), init_barrier(shared + LT_AT(dq_empty) + 8 * i, 1);
    }
    publish_barriers();
  }
  __syncthreads();
  const Work work(x);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp_group = uniform(thread / kWarpGroup);
  if (warp_group == 2) {
    give_registers_up<kOtherRegisters>();
    if (thread == kLoader) load_tiles(x, work, shared);
    if (thread == kMovers || thread == kMovers + kWarp) move_dq(x, work, shared, (thread - kMovers) / kWarp);
    return;
  }
  take_registers<kComputingRegisters>();
  compute<T>(x, work, Worker{shared, warp_group, thread % kWarpGroup, x.scale});
}

// delta = sum_D(dout * out), eight threads for a row of [B, T, H]. Also clears the flags of the tiles.
template <class T>
__global__ void __launch_bounds__(kThreads)
    attention_delta_kernel(float* delta_BHT, int* added, const T* out_BTHD, const T* dout_BTHD, AttentionShape s) {
  constexpr int kLanes = kChannels / kPack<T>;
  const Size row = thread_index() / kLanes;
  if (row >= s.B * s.T * s.H) return;
  const Packed<T> out = reinterpret_cast<const Packed<T>*>(out_BTHD)[thread_index()];
  const Packed<T> dout = reinterpret_cast<const Packed<T>*>(dout_BTHD)[thread_index()];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) sum = fmaf(out[i], dout[i], sum);
  sum = warp_sum<kLanes>(sum);
  if (thread_index() % kLanes != 0) return;
  const Size h = row % s.H, t = row / s.H % s.T, b = row / s.H / s.T, at = (b * s.H + h) * s.T + t;
  delta_BHT[at] = sum;
  if (t % kQueries == 0) added[at / kQueries] = 0;
}

template <class T>
void run(CudaStream stream, const AttentionBackward& call) {
  const AttentionShape& s = call.shape;
  const TileMaps maps{call.dtype, s};
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
  launch(stream, attention_delta_kernel<T>, (threads + kThreads - 1) / kThreads, kThreads, Size{0}, delta_BHT, added,
         static_cast<const T*>(call.out_BTHD), static_cast<const T*>(call.dout_BTHD), s);
  const Size blocks = s.B * s.G * (s.T / kKeys) / (arguments.in_pairs ? 2 : 1);
  launch(stream, attention_backward_kernel<T>, blocks, kBlockThreads, Size{sizeof(Shared)}, arguments);
}

#undef LT_AT

}  // namespace

bool attention_backward(CudaStream stream, const AttentionBackward& call) {
  if (!aligned(call.qkv, call.dqkv, call.out_BTHD, call.dout_BTHD, call.lse_BHT, call.workspace)) return false;
  if (call.dtype == DType::bf16) {
    run<bf16>(stream, call);
  } else {
    run<f16>(stream, call);
  }
  return true;
}

}  // namespace lt::kernels::hopper
