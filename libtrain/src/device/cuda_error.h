// Turns return codes of the CUDA runtime into exceptions. Only for sources of a build with CUDA.
#pragma once

#include <cuda_runtime_api.h>

namespace lt::cuda {

// Throws InternalError that names the call and CUDA's reason.
[[noreturn]] void fail(cudaError_t code, const char* call);
inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) fail(code, call);
}

}  // namespace lt::cuda

#define LT_CUDA(call) ::lt::cuda::check((call), #call)
