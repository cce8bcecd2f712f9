// The memsets of a captured step. Libraries clear parts of their workspaces with cudaMemsetAsync(), which becomes a
// node of its own kind in a graph. The device idles before and after such a node, and hardly between two kernels.
#pragma once

#include <cstddef>

namespace lt::kernels {

// Nearly all that cuBLASLt and cuDNN clear in a step is smaller.
inline constexpr std::size_t kSmallMemsetBytes = 65536;

// Replaces memset nodes of `graph`, a cudaGraph_t that has not been instantiated, by kernels that write the same on the
// current device: those of one row of whole, aligned words, at most kSmallMemsetBytes. A node with an edge that is more
// than an order stays, and so do all nodes of a graph that allocates memory. Does not look into child graphs and
// conditional bodies. Throws InternalError. Does nothing in builds without CUDA.
void replace_small_memsets(void* graph);

}  // namespace lt::kernels
