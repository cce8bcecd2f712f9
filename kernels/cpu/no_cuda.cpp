// Stubs for a build without CUDA, which has no graphs and no algorithms of cuBLASLt.
#include "kernels/graph_memsets.h"
#include "kernels/product_search.h"

namespace lt::kernels {

void replace_small_memsets(void* /*graph*/) {}

void search_products(Device /*device*/, const std::function<void()>& compute,
                     const std::function<void(const SearchedProduct&)>& /*report*/) {
  compute();
}

void use_products(Device /*device*/, Algorithms /*which*/) {}

std::string keep_found_products(Device /*device*/) { return {}; }

}  // namespace lt::kernels
