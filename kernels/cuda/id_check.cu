// Each CUDA device's word for bad ids of work that has no word of its own.
#include "kernels/id_check.h"

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

__device__ std::uint64_t device_word = 0;  // a copy on each device

}  // namespace

std::uint64_t* word_of_device(CudaStream stream) {
  void* address = nullptr;
  LT_CUDA(cudaSetDevice(stream.device));
  LT_CUDA(cudaGetSymbolAddress(&address, device_word));
  return static_cast<std::uint64_t*>(address);
}

}  // namespace lt::kernels
