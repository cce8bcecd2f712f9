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
#include "kernels/cuda/attention_backward_hopper_matmuls.cuh"
#include "kernels/cuda/attention_hopper.h"

namespace lt::kernels::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(kBlockThreads, 1) attention_backward_kernel(const __grid_constant__ Arguments x) {
  const std::uint32_t shared = begin_block<Shared>([](std::uint32_t at) {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(at + LT_AT(full) + 8 * i, 1), init_barrier(at + LT_AT(empty) + 8 * i, kComputing / kWarp);
    }
    for (int i = 0; i < 2; ++i) init_barriers(handover<Shared>(at, i));
  });
  const BlockWork work(x);
  run_warp_groups([&] { load_tiles(x, work, shared); },
                  [&](int i) { move_dq<2>(x, work, handover<Shared>(shared, i), i, 0); },
                  [&](int warp_group, int thread) {
                    compute<T>(x, work, Worker{shared, warp_group, thread, x.scale});
                  });
}

#undef LT_AT

}  // namespace

bool attention_backward(CudaStream stream, const AttentionBackward& call) {
  if (!aligned(call.qkv, call.dqkv, call.out_BTHD, call.dout_BTHD, call.lse_BHT, call.workspace)) return false;
  if (call.shape.D == 128) {
    attention_backward_128(stream, call);
  } else if (call.dtype == DType::bf16) {
    launch_backward<bf16, 64>(stream, call, attention_backward_kernel<bf16>, Size{sizeof(Shared)});
  } else {
    launch_backward<f16, 64>(stream, call, attention_backward_kernel<f16>, Size{sizeof(Shared)});
  }
  return true;
}

}  // namespace lt::kernels::hopper
