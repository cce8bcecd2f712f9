// Measures how long the device is idle between the kernels, copies and fills of each launched CUDA graph. It is a
// library that the CUDA driver loads into a program. The program must use one device only:
//
//   CUDA_INJECTION64_PATH=build/cuda/bench/libgraph_gaps.so ltrain bench step --train.device=cuda ...
//
// At the program's end it writes one line per launch to standard error. CUPTI sees the nodes of a graph only if it
// records from the program's start. libtrain's own kernel profiles begin later, so they cannot show this.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{16} << 20, kBufferAlignment = 8;
constexpr std::size_t kFewestNodes = 100;  // smaller graphs are no training steps

struct Node {
  std::uint64_t begin_ns, end_ns;
  std::string name;
};

// CUPTI's threads may deliver records until the process ends.
struct Launches {
  std::mutex mutex;
  std::map<std::uint32_t, std::vector<Node>> by_correlation;  // all nodes of a launch have one correlation
  std::size_t lost = 0;                                       // records without times, or that CUPTI dropped
};

Launches& launches() {
  static auto& only = *new Launches;
  return only;
}

// A kernel's name without template arguments and parameters.
std::string name_of(const CUpti_ActivityKernel10& kernel) {
  if (kernel.name == nullptr) return "a kernel";
  int status = 0;
  char* const demangled = abi::__cxa_demangle(kernel.name, nullptr, nullptr, &status);
  std::string name = demangled != nullptr ? demangled : kernel.name;
  std::free(demangled);
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const char* const anonymous = "(anonymous namespace)::"; name.find(anonymous) != std::string::npos;) {
    name.erase(name.find(anonymous), std::strlen(anonymous));
  }
  return name.substr(0, name.find_first_of("<("));
}
std::string name_of(const CUpti_ActivityMemcpy6&) { return "a copy"; }
std::string name_of(const CUpti_ActivityMemset4&) { return "a fill"; }

template <class Activity>
void take(const CUpti_Activity& record) {
  const auto& node = reinterpret_cast<const Activity&>(record);
  const bool has_times = node.start != 0 && node.end >= node.start;
  if (!has_times) ++launches().lost;
  if (!has_times || node.graphId == 0) return;
  launches().by_correlation[node.correlationId].push_back({node.start, node.end, name_of(node)});
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  const std::lock_guard lock(launches().mutex);
  CUpti_Activity* record = nullptr;
  while (valid_bytes > 0 && cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) take<CUpti_ActivityKernel10>(*record);
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) take<CUpti_ActivityMemcpy6>(*record);
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) take<CUpti_ActivityMemset4>(*record);
  }
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) launches().lost += dropped;
  std::free(buffer);
}

void print(std::vector<Node>& nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.begin_ns < b.begin_ns; });
  const std::uint64_t begin = nodes.front().begin_ns;
  std::uint64_t end = begin, idle = 0, longest = 0, longest_at = begin;
  const Node *last = &nodes.front(), *before = last, *after = last;  // `last` ends last of those so far
  std::vector<std::uint64_t> gaps{0};                                // ns; starts with 0, so that it is never empty
  for (const Node& node : nodes) {
    if (node.begin_ns > end) {
      gaps.push_back(node.begin_ns - end), idle += gaps.back();
      if (gaps.back() > longest) longest = gaps.back(), longest_at = end, before = last, after = &node;
    }
    if (node.end_ns >= end) end = node.end_ns, last = &node;
  }
  std::sort(gaps.begin(), gaps.end());
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  const double span_ms = ms(end - begin), idle_ms = ms(idle);
  std::fprintf(stderr,
               "graph of %zu nodes: %.3f ms, idle %.3f ms (%.2f %%) in %zu gaps, median %.2f us, longest %.2f us "
               "at %.3f ms, between %s and %s\n",
               nodes.size(), span_ms, idle_ms, 100 * idle_ms / span_ms, gaps.size() - 1,
               1e3 * ms(gaps[gaps.size() / 2]), 1e3 * ms(longest), ms(longest_at - begin), before->name.c_str(),
               after->name.c_str());
}

void print_all() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(launches().mutex);
  for (auto& [correlation, nodes] : launches().by_correlation) {
    if (nodes.size() >= kFewestNodes) print(nodes);
  }
  if (launches().lost > 0) std::fprintf(stderr, "graph_gaps: %zu records were lost\n", launches().lost);
}

}  // namespace

// The driver calls this when it has loaded the library. Returns 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  bool records = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS;
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    records = records && cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  }
  if (!records) std::fputs("graph_gaps: CUPTI does not record in this process\n", stderr);
  std::atexit(print_all);
  return 1;
}
