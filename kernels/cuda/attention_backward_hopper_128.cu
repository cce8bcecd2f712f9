// Attention's backward for heads of 128 channels on the tensor cores of compute capability 9.0.
//
// Like the kernel for heads of 64 channels (attention_backward_hopper.cu), with the same order of sums, but a block of
// threads takes 128 keys, 64 for each of its two warp groups, whose dk and dv fill their registers. Each warp group
// computes dq of every tile for half of the channels. dq and dk of a tile run while S and P of the next are
// computed.
#include "kernels/cuda/attention_backward_hopper_128_matmuls.cuh"

namespace lt::kernels::hopper {
namespace of_128 {
namespace {

template <class T>
__global__ void __launch_bounds__(kBlockThreads, 1) attention_backward_kernel(const __grid_constant__ Arguments x) {
  extern __shared__ __align__(1024) std::byte shared_memory[];
  const std::uint32_t shared = shared_address(shared_memory);
  if (threadIdx.x == 0) {
    constexpr int kComputingWarps = kComputing / kWarp;
    if (shared % 1024 != 0) __trap();
    init_barrier(shared + LT_AT(keys_full), 1), init_barrier(shared + LT_AT(keys_empty), 1);
    for (int i = 0; i < kQueryStages; ++i) {
      init_barrier(shared + LT_AT(q_full) + 8 * i, 1), init_barrier(shared + LT_AT(q_empty) + 8 * i, kComputingWarps);
    }
    for (int i = 0; i < kOutputStages; ++i) {
      init_barrier(shared + LT_AT(dout_full) + 8 * i, 1);
      init_barrier(shared + LT_AT(dout_empty) + 8 * i, kComputingWarps);
    }
    for (int i = 0; i < 2; ++i) {
      init_barrier(shared + LT_AT(ds_full) + 8 * i, kComputingWarps);
      init_barrier(shared + LT_AT(dq_full) + 8 * i, kWarpGroup), init_barrier(shared + LT_AT(dq_empty) + 8 * i, 1);
    }
    publish_barriers();
  }
  __syncthreads();
  const BlockWork work(x);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp_group = uniform(thread / kWarpGroup);
  if (warp_group == 2) {
    give_registers_up<kOtherRegisters>();
    if (thread == kLoader) load_tiles(x, work, shared);
    if (thread == kMovers || thread == kMovers + kWarp) {
      const int half = (thread - kMovers) / kWarp;
      move_dq<kHalves, 1>(x, work, handover(shared, half), 0, half);
    }
    return;
  }
  take_registers<kComputingRegisters>();
  compute<T>(x, work, Worker{shared, warp_group, thread % kWarpGroup, x.scale});
}
#undef LT_AT

template <class T>
void run(CudaStream stream, const AttentionBackward& call) {
  launch_backward<T, 128, kKeys>(stream, call, attention_backward_kernel<T>, Size{sizeof(Shared)});
}

}  // namespace
}  // namespace of_128

void attention_backward_128(CudaStream stream, const AttentionBackward& call) {
  if (call.dtype == DType::bf16) {
    of_128::run<bf16>(stream, call);
  } else {
    of_128::run<f16>(stream, call);
  }
}

}  // namespace lt::kernels::hopper
