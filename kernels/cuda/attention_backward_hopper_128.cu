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
  const std::uint32_t shared = begin_block<Shared>([](std::uint32_t at) {
    constexpr int kComputingWarps = kComputing / kWarp;
    for (int i = 0; i < kQueryStages; ++i) {
      init_barrier(at + LT_AT(q_full) + 8 * i, 1), init_barrier(at + LT_AT(q_empty) + 8 * i, kComputingWarps);
    }
    for (int i = 0; i < kOutputStages; ++i) {
      init_barrier(at + LT_AT(dout_full) + 8 * i, 1), init_barrier(at + LT_AT(dout_empty) + 8 * i, kComputingWarps);
    }
    for (int i = 0; i < 2; ++i) {
      init_barrier(at + LT_AT(ds_full) + 8 * i, kComputingWarps), init_barriers(handover<Shared>(at, i));
    }
  });
  const BlockWork work(x);
  run_warp_groups([&] { load_tiles(x, work, shared); },
                  [&](int i) { move_dq<1>(x, work, handover<Shared>(shared, i), 0, i); },
                  [&](int warp_group, int thread) {
                    compute<T>(x, work, Worker{shared, warp_group, thread, x.scale});
                  });
}
#undef LT_AT

template <class T>
void run(CudaStream stream, const AttentionBackward& call) {
  launch_backward<T, 128>(stream, call, attention_backward_kernel<T>, Size{sizeof(Shared)});
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
