// Calls the device's Cublas object.
#include "kernels/product_search.h"

#include "kernels/cuda/cublas_products.h"

namespace lt::kernels {

void search_products(Device device, const std::function<void()>& compute,
                     const std::function<void(const SearchedProduct&)>& report) {
  Cublas::of(device.index).search(compute, report);
}

void use_products(Device device, Algorithms which) { Cublas::of(device.index).use(which); }

std::string keep_found_products(Device device) { return Cublas::of(device.index).keep_found(); }

}  // namespace lt::kernels
