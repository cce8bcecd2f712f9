// Asks NCCL in a kernel, because only device code can read the addresses.
#include <nccl_device.h>

#include "comm/nccl/window_places.h"
#include "device/cuda_error.h"

namespace lt::comm {
namespace {

__global__ void places_kernel(void** places, ncclWindow_t window, int ranks) {
  for (int rank = static_cast<int>(threadIdx.x); rank < ranks; rank += static_cast<int>(blockDim.x)) {
    places[rank] = ncclGetLsaPointer(window, 0, rank);
  }
}

}  // namespace

std::vector<std::byte*> places_of_window(ncclWindow_t window, int ranks) {
  std::vector<std::byte*> places(static_cast<std::size_t>(ranks));
  void** on_device = nullptr;
  const std::size_t bytes = places.size() * sizeof(void*);
  LT_CUDA(cudaMalloc(&on_device, bytes));
  places_kernel<<<1, 32>>>(on_device, window, ranks);
  const cudaError_t launched = cudaGetLastError();
  const cudaError_t copied = cudaMemcpy(places.data(), on_device, bytes, cudaMemcpyDeviceToHost);
  LT_CUDA(cudaFree(on_device));
  LT_CUDA(launched);
  LT_CUDA(copied);
  return places;
}

}  // namespace lt::comm
