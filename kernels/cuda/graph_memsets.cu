// Replaces the small memsets of a captured graph by kernels.
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

// Empty if the node, a memset, stays.
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

// CUDA 13 dropped the functions without edge data.
#if CUDART_VERSION >= 13000
constexpr auto get_earlier = cudaGraphNodeGetDependencies, get_later = cudaGraphNodeGetDependentNodes;
constexpr auto add_edges = cudaGraphAddDependencies;
#else
constexpr auto get_earlier = cudaGraphNodeGetDependencies_v2, get_later = cudaGraphNodeGetDependentNodes_v2;
constexpr auto add_edges = cudaGraphAddDependencies_v2;
#endif

// Empty if an edge to one of them is more than an order, as between kernels that overlap.
std::optional<std::vector<cudaGraphNode_t>> neighbours(decltype(get_earlier) get, cudaGraphNode_t node) {
  std::size_t count = 0;
  LT_CUDA(get(node, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  std::vector<cudaGraphEdgeData> edges(count);
  if (count > 0) LT_CUDA(get(node, nodes.data(), edges.data(), &count));
  const auto is_plain = [](const cudaGraphEdgeData& e) { return e.from_port == 0 && e.to_port == 0 && e.type == 0; };
  if (!std::all_of(edges.begin(), edges.end(), is_plain)) return std::nullopt;
  return nodes;
}

void replace(cudaGraph_t graph, cudaGraphNode_t node) {
  const std::optional<WordMemset> set = small_memset(node);
  if (!set) return;
  const auto earlier = neighbours(get_earlier, node), later = neighbours(get_later, node);
  if (!earlier || !later) return;
  const std::vector<cudaGraphNode_t> from(later->size(), add_kernel(graph, *earlier, *set));
  LT_CUDA(add_edges(graph, from.data(), later->data(), nullptr, later->size()));
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
    switch (cuda::kind_of_node(node)) {
      case cuda::GraphNodeKind::memset: memsets.push_back(node); break;
      case cuda::GraphNodeKind::allocation: return;  // nodes of such a graph cannot be removed
      case cuda::GraphNodeKind::other: break;
    }
  }
  for (const cudaGraphNode_t node : memsets) replace(graph, node);
}

}  // namespace lt::kernels
