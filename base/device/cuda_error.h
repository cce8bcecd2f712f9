// Turns return codes of the CUDA runtime into exceptions. Include it only in sources that need CUDA to build.
#pragma once

#include <cuda_runtime_api.h>

namespace lt::device::cuda {

// Throws an InternalError with the call and CUDA's error text.
[[noreturn]] void fail(cudaError_t code, const char* call);
inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) fail(code, call);
}

}  // namespace lt::device::cuda

#define LT_CUDA(call) ::lt::device::cuda::check((call), #call)
