// Stubs for a build without CUDA, which has no graphs and no algorithms of cuBLASLt.
#include "kernels/graph_memsets.h"
#include "kernels/matmul_algorithms.h"
#include "kernels/matmul_search.h"

namespace lt::kernels {

void replace_small_memsets(void* /*graph*/) {}

std::string search_matmuls(Device /*device*/, const std::function<void()>& compute,
                           const std::function<void(const SearchedMatmul&)>& /*report*/) {
  compute();
  return {};
}

std::string carried_matmul_algorithms(Device /*device*/) { return {}; }

std::string matmul_algorithms(Device /*device*/) { return {}; }

void use_matmul_algorithms(Device /*device*/, const std::string& /*text*/, const std::string& /*where*/) {}

std::string cublaslt_version() { return {}; }

}  // namespace lt::kernels
