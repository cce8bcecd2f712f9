// Finds the small memset nodes of a graph and puts a kernel node in the place of each.
#include "kernels/graph_memsets.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint32_t);

__global__ void set_words_kernel(std::uint32_t* to, std::uint32_t word, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) to[i] = word;
}

struct WordMemset {
  std::uint32_t* to;
  std::uint32_t word;
  unsigned count;
};

// What a memset node writes; empty if it stays a memset.
std::optional<WordMemset> small_memset(cudaGraphNode_t node) {
  cudaMemsetParams set{};
  LT_CUDA(cudaGraphMemsetNodeGetParams(node, &set));
  const std::size_t bytes = set.width * set.elementSize;
  const bool is_of_words = bytes % kWordBytes == 0 && reinterpret_cast<std::uintptr_t>(set.dst) % kWordBytes == 0;
  if (set.height != 1 || bytes == 0 || bytes > kSmallMemsetBytes || !is_of_words) return std::nullopt;
  // The value is that of an element of 1, 2 or 4 bytes.
  std::uint32_t word = set.value;
  if (set.elementSize == 1) word = (word & 0xff) * 0x01010101u;
  if (set.elementSize == 2) word = (word & 0xffff) * 0x00010001u;
  return WordMemset{static_cast<std::uint32_t*>(set.dst), word, static_cast<unsigned>(bytes / kWordBytes)};
}

cudaGraphNode_t add_kernel(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after, WordMemset set) {
  void* arguments[] = {&set.to, &set.word, &set.count};
  constexpr unsigned kThreads = 256, kMostBlocks = 16;
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(&set_words_kernel);
  kernel.gridDim = dim3(std::min((set.count + kThreads - 1) / kThreads, kMostBlocks));
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  LT_CUDA(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &kernel));
  return node;
}

// The neighbours of a node; empty if an edge to one of them is more than an order, as between kernels that overlap.
std::optional<std::vector<cudaGraphNode_t>> neighbours(decltype(cudaGraphNodeGetDependencies) get,
                                                       cudaGraphNode_t node) {
  std::vector<cudaGraphNode_t> nodes;
  std::size_t count = 0;
  cudaError_t code = get(node, nullptr, nullptr, &count);
  if (code == cudaSuccess && count > 0) {
    nodes.resize(count);
    code = get(node, nodes.data(), nullptr, &count);
  }
  if (code == cudaErrorLossyQuery) {  // an edge has data that this does not ask for
    static_cast<void>(cudaGetLastError());
    return std::nullopt;
  }
  device::cuda::check(code, "neighbours of a node");
  return nodes;
}

void replace(cudaGraph_t graph, cudaGraphNode_t node) {
  const std::optional<WordMemset> set = small_memset(node);
  if (!set) return;
  const auto earlier = neighbours(cudaGraphNodeGetDependencies, node);
  const auto later = neighbours(cudaGraphNodeGetDependentNodes, node);
  if (!earlier || !later) return;
  const cudaGraphNode_t kernel = add_kernel(graph, *earlier, *set);
  const std::vector<cudaGraphNode_t> from(later->size(), kernel);
  LT_CUDA(cudaGraphAddDependencies(graph, from.data(), later->data(), nullptr, later->size()));
  LT_CUDA(cudaGraphDestroyNode(node));
}

}  // namespace

void replace_small_memsets(void* handle) {
  const auto graph = static_cast<cudaGraph_t>(handle);
  std::size_t count = 0;
  LT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  LT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<cudaGraphNode_t> memsets;
  for (const cudaGraphNode_t node : nodes) {
    switch (device::cuda::kind_of_node(node)) {
      case device::cuda::GraphNodeKind::memset: memsets.push_back(node); break;
      case device::cuda::GraphNodeKind::allocation: return;  // nodes of such a graph cannot be removed
      case device::cuda::GraphNodeKind::other: break;
    }
  }
  for (const cudaGraphNode_t node : memsets) replace(graph, node);
}

}  // namespace lt::kernels
