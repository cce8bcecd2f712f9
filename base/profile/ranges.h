// Named ranges that CUDA's profilers show next to kernels (NVTX). Without a profiler, and in a build without CUDA, they
// do nothing.
#pragma once

#include <string_view>

namespace lt::profile {

// Ranges of one thread nest. Names are truncated to 63 characters.
void push_range(std::string_view name);
void pop_range();

}  // namespace lt::profile
