// Calls the device's Cublas object.
#include "kernels/matmul_search.h"

#include "kernels/cuda/cublas_matmuls.h"

namespace lt::kernels {

void search_matmuls(Device device, const std::function<void()>& compute,
                    const std::function<void(const SearchedMatmul&)>& report) {
  Cublas::of(device.index).search(compute, report);
}

void use_matmuls(Device device, Algorithms which) { Cublas::of(device.index).use(which); }

std::string keep_found_matmuls(Device device) { return Cublas::of(device.index).keep_found(); }

}  // namespace lt::kernels
