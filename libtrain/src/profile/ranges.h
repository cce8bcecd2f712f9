// Named ranges that the profilers of CUDA show beside kernels (NVTX). Without a profiler, and in a build without CUDA,
// they do nothing.
#pragma once

#include <string_view>

namespace lt {

// Ranges of a thread are nested; names are cut off after 63 characters.
void push_range(std::string_view name);
void pop_range();

}  // namespace lt
