// Replaces the memsets of a captured step by kernels. Libraries clear parts of their workspaces with cudaMemsetAsync(),
// which becomes a memset node in a graph. The device idles before and after such a node, but hardly between two
// kernels.
#pragma once

#include <cstddef>

namespace lt::kernels {

// Nearly all memsets of cuBLASLt and cuDNN in a step are smaller.
inline constexpr std::size_t kSmallMemsetBytes = 65536;

// Replaces small memset nodes of `graph`, a cudaGraph_t that is not yet instantiated, by kernels that write the same
// values on the current device. A memset is small if it sets one row of whole, aligned words, at most
// kSmallMemsetBytes. Keeps nodes whose edges carry data (as between kernels that overlap) and all nodes of a graph that
// allocates memory. Ignores child graphs and conditional bodies. Throws InternalError. Does nothing in builds without
// CUDA.
void replace_small_memsets(void* graph);

}  // namespace lt::kernels
