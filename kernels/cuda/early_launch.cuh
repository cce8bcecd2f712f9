// Programmatic dependent launch, on compute capability 9.0 and above: a kernel begins while the one before it still
// runs.
#pragma once

#include "kernels/cuda/common.cuh"

namespace lt::kernels {

// A kernel that is launched with launch_early() may start once all blocks of the kernel before it have called
// let_next_kernel_start() or have ended. Before wait_for_earlier_kernels(), which at least one of its blocks calls, it
// may only read what the kernels that still run do not write, such as constant weights. The wait is for the end of the
// kernel before, which has waited likewise, so everything enqueued earlier has ended then. A kernel may let the next
// one start before it waits itself: several kernels in a row then fetch their weights at the same time.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
// Whether the device runs code that was compiled for compute capability 9.0 or above, judged by one kernel of the
// build: all have such code or none. Code for older devices has neither of these functions, nor clusters.
template <class... Parameters>
bool runs_new_code(CudaStream stream, void (*kernel)(Parameters...)) {
  static thread_local int device = -1;
  static thread_local bool is_new = false;
  if (device != stream.device) {
    cudaFuncAttributes code{};
    LT_CUDA(cudaFuncGetAttributes(&code, kernel));
    device = stream.device, is_new = code.ptxVersion >= 90;
  }
  return is_new;
}
inline cudaLaunchAttribute early_attribute() {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  return early;
}
template <class... Parameters, class... Arguments>
void launch_early(CudaStream stream, void (*kernel)(Parameters...), Size blocks, int threads, Arguments... arguments) {
  cudaLaunchAttribute early = early_attribute();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks)), config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream_of(stream);
  config.attrs = &early, config.numAttrs = runs_new_code(stream, kernel) ? 1 : 0;
  LT_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace lt::kernels
