// Stubs for a build without CUDA, which has no graphs and no algorithms of cuBLASLt.
#include "kernels/graph_memsets.h"
#include "kernels/matmul_search.h"

namespace lt::kernels {

void replace_small_memsets(void* /*graph*/) {}

void search_matmuls(Device /*device*/, const std::function<void()>& compute,
                    const std::function<void(const SearchedMatmul&)>& /*report*/) {
  compute();
}

void use_matmuls(Device /*device*/, Algorithms /*which*/) {}

std::string keep_found_matmuls(Device /*device*/) { return {}; }

}  // namespace lt::kernels
