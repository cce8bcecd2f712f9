// The memsets of a captured step. Libraries clear parts of their workspaces with cudaMemsetAsync(), which becomes a
// node of its own kind in a graph. The device idles before and after such a node; between two kernels it does not.
#pragma once

#include <cstddef>

namespace lt::kernels {

inline constexpr std::size_t kSmallMemsetBytes = 65536;

// Replaces each node of `graph`, a cudaGraph_t that has not been instantiated, that sets at most kSmallMemsetBytes of
// consecutive words by a kernel that does the same on the current device. Does not look into child graphs and
// conditional bodies. Throws InternalError. Builds with CUDA only.
void replace_small_memsets(void* graph);

}  // namespace lt::kernels
