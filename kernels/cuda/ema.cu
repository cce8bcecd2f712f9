// Exponential moving average of weights on the GPU.
#include "kernels/ema.h"

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

template <class T>
__global__ void ema_update_kernel(float* average_N, const T* w_N, Size N, double decay, int bias,
                                  const StepNumbers* numbers) {
  if (numbers->skip != 0.0f) return;
  const auto share = static_cast<float>((1 - decay) / static_cast<double>(numbers->bias[bias]));
  for (Size i = thread_index(); i < N; i += thread_count()) {
    average_N[i] += share * (static_cast<float>(load(w_N[i])) - average_N[i]);
  }
}

}  // namespace

template <>
void ema_update(CudaStream stream, float* average_N, DType dtype, const void* w_N, Size N, double decay, int bias,
                const StepNumbers* numbers) {
  if (N == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    ema_update_kernel<<<blocks_for(stream, N), kThreads, 0, stream_of(stream)>>>(average_N, static_cast<const T*>(w_N),
                                                                                 N, decay, bias, numbers);
  });
  check_launch("ema_update");
}

}  // namespace lt::kernels
