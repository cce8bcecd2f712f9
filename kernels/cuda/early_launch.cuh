// Programmatic dependent launch, on compute capability 9.0 and above: a kernel begins while the one before it still
// runs.
#pragma once

#include "kernels/cuda/common.cuh"

namespace lt::kernels {

// A kernel launched with launch_early() may start once all blocks of the preceding kernel have called
// let_next_kernel_start() or have ended. At least one of its blocks must call wait_for_earlier_kernels(). Before that
// call, the kernel may read only memory that no running kernel writes, such as constant weights. The call waits for the
// end of the preceding kernel, which has waited in the same way, so everything enqueued earlier has then ended. A
// kernel may let the next one start before it waits itself, so that several kernels in a row fetch their weights at the
// same time.
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
// True if the device runs code that was compiled for compute capability 9.0 or above. Checks one kernel, because all
// kernels of a build have such code or none has. Code for older devices has neither these functions nor clusters.
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
