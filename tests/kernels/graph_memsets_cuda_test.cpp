// Kernels replace memsets of a CUDA graph: which memsets are replaced, and that the graph still writes the same values
// in the same order.
#include "kernels/graph_memsets.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cuda_error.h"
#include "kernels/device_array.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct Memset {
  std::size_t at, pitch;  // bytes
  unsigned value, element_bytes;
  std::size_t width, height;  // elements, rows
  bool becomes_kernel;
};

constexpr std::size_t kBytes = 1 << 19;
const std::vector<Memset> kMemsets = {
    {0, 0, 0, 1, 4096, 1, true},
    {4096, 0, 0x5a, 1, 20, 1, true},
    {4160, 0, 0x1234, 2, 6, 1, true},
    {4200, 0, 0x89abcdef, 4, 100, 1, true},
    {4100, 0, 0x77, 1, 8, 1, true},  // over what an earlier one wrote
    {65536, 0, 0x66, 1, kSmallMemsetBytes, 1, true},
    {8900, 64, 0x55, 4, 4, 1, true},   // one row has no pitch
    {8000, 0, 0x11, 1, 7, 1, false},   // no whole words
    {8101, 0, 0x22, 1, 8, 1, false},   // not at a word
    {9000, 64, 0x33, 4, 4, 3, false},  // rows with gaps
    {2 * 65536, 0, 0x44, 1, kSmallMemsetBytes + 4, 1, false},
};

// Where the graph's memsets write, in bytes from `start`, sorted.
std::vector<std::size_t> offsets_of_memsets(cudaGraph_t graph, const void* start) {
  std::size_t count = 0;
  LT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  LT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<std::size_t> offsets;
  for (const cudaGraphNode_t node : nodes) {
    if (device::cuda::kind_of_node(node) != device::cuda::GraphNodeKind::memset) continue;
    cudaMemsetParams set{};
    LT_CUDA(cudaGraphMemsetNodeGetParams(node, &set));
    offsets.push_back(reinterpret_cast<std::uintptr_t>(set.dst) - reinterpret_cast<std::uintptr_t>(start));
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

// On the device, with another value than any memset writes.
DeviceArray unwritten() {
  Array bytes(DType::f32, kBytes / sizeof(float));
  std::memset(bytes.data(), 0xee, kBytes);
  return DeviceArray(bytes);
}

std::vector<std::uint8_t> contents(const DeviceArray& memory) {
  Array here(DType::f32, kBytes / sizeof(float));
  memory.read(here);
  const auto* const bytes = static_cast<const std::uint8_t*>(here.data());
  return {bytes, bytes + kBytes};
}

}  // namespace

TEST_CASE("cuda: small memsets of a graph become kernels", "[cuda]") {
  if (!has_gpu()) return;
  std::vector<std::vector<std::uint8_t>> written;
  for (const bool replaces : {false, true}) {
    DeviceArray memory = unwritten();
    cudaGraph_t graph = nullptr;
    LT_CUDA(cudaGraphCreate(&graph, 0));
    // A chain, and an end that waits for the first as well as for the last.
    cudaGraphNode_t first = nullptr, last = nullptr, join = nullptr;
    for (const Memset& set : kMemsets) {
      cudaMemsetParams params{};
      params.dst = static_cast<std::uint8_t*>(memory.data()) + set.at;
      params.pitch = set.pitch, params.value = set.value, params.elementSize = set.element_bytes;
      params.width = set.width, params.height = set.height;
      cudaGraphNode_t node = nullptr;
      LT_CUDA(cudaGraphAddMemsetNode(&node, graph, &last, last == nullptr ? 0 : 1, &params));
      if (first == nullptr) first = node;
      last = node;
    }
    const cudaGraphNode_t both[] = {first, last};
    LT_CUDA(cudaGraphAddEmptyNode(&join, graph, both, 2));
    if (replaces) replace_small_memsets(graph);
    std::vector<std::size_t> stay;
    for (const Memset& set : kMemsets) {
      if (!replaces || !set.becomes_kernel) stay.push_back(set.at);
    }
    std::sort(stay.begin(), stay.end());
    CHECK(offsets_of_memsets(graph, memory.data()) == stay);
    std::size_t nodes = 0, edges = 0;
    LT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
    LT_CUDA(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    CHECK(nodes == kMemsets.size() + 1);
    CHECK(edges == kMemsets.size() + 1);
    cudaGraphExec_t executable = nullptr;
    LT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    LT_CUDA(cudaGraphLaunch(executable, static_cast<cudaStream_t>(gpu_stream().handle)));
    written.push_back(contents(memory));
    LT_CUDA(cudaGraphExecDestroy(executable));
    LT_CUDA(cudaGraphDestroy(graph));
  }
  CHECK(written[0] == written[1]);
  CHECK(written[0][0] == 0);
  CHECK(written[0][4100] == 0x77);
  CHECK(written[0][kBytes - 1] == 0xee);
}

// The runtime does not know the kind of such a node.
TEST_CASE("cuda: memsets of a captured graph beside a node that writes a word", "[cuda]") {
  if (!has_gpu()) return;
  const std::shared_ptr<void> word = device::cuda::allocate_pinned(kGpu.index, sizeof(std::uint32_t));
  auto* const pinned = static_cast<std::uint32_t*>(word.get());
  *pinned = 0;
  DeviceArray memory = unwritten();
  const CudaStream s = gpu_stream();
  const auto graph = device::cuda::capture(
      s,
      [&] {
        const auto stream = static_cast<cudaStream_t>(s.handle);
        LT_CUDA(cudaMemsetAsync(memory.data(), 0x12, 4096, stream));
        CHECK(device::cuda::write_word(pinned, 1, s));
        LT_CUDA(cudaMemsetAsync(memory.data(), 0x34, 1024, stream));
      },
      [](void* captured) {
        const auto graph = static_cast<cudaGraph_t>(captured);
        CHECK(offsets_of_memsets(graph, nullptr).size() == 2);
        replace_small_memsets(graph);
        CHECK(offsets_of_memsets(graph, nullptr).empty());
      });
  device::cuda::launch(graph.get(), s);
  const std::vector<std::uint8_t> bytes = contents(memory);
  CHECK(bytes[0] == 0x34);
  CHECK(bytes[1023] == 0x34);
  CHECK(bytes[1024] == 0x12);
  CHECK(bytes[4095] == 0x12);
  CHECK(bytes[4096] == 0xee);
  CHECK(*pinned == 1);
}
