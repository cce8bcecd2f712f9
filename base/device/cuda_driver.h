// Functions of the CUDA driver, looked up at run time so that programs start without a driver. Include it only in
// sources that need CUDA to build.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

namespace lt::device::cuda {

// The driver's function `name` as of CUDA 12.0, or null.
template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t code = cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result);
  return code == cudaSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

}  // namespace lt::device::cuda
