// The table of devices, and the cost of collectives on them.
#include "plan/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "io/lower_case.h"
#include "libtrain/error.h"

namespace lt::planner {
namespace {

constexpr int kOneNode = 1 << 30;

// clang-format off
constexpr DeviceModel kDevices[] = {
    // name  matmuls           attention forward, backward memory dense links   start hops     node      MiB    overlap
    //       f32   bf16  fp8   D < 128, D >= 128           GB/s  bf16   GB/s    us    us
    {"h100", 48,   742,  1330, {346, 595},   {255, 489},   2900, 989.5, 345, 45, 10, 1.0, 4.0, 8,        81559,  true},
    {"h200", 48,   742,  1330, {346, 595},   {255, 489},   4200, 989.5, 345, 45, 10, 1.0, 4.0, 8,        143771, true},
    {"a100", 14,   234,  0,    {109, 188},   {80, 154},    1750, 312,   230, 22, 10, 1.0, 4.0, 8,        81920,  true},
    {"cpu", 0.185, 0.43, 0.43, {0.24, 0.24}, {0.24, 0.24}, 20,   0,     3,   3,  20, 5.0, 5.0, kOneNode, 0,      false},
};
// clang-format on

// Placements repeat from group to group, so at most this many groups are examined.
constexpr int kMostGroups = 1 << 12;

}  // namespace

const DeviceModel& find_device_model(std::string_view name) {
  std::string names;
  for (const DeviceModel& device : kDevices) {
    if (device.name == name) return device;
    names += (names.empty() ? "" : ", ") + std::string(device.name);
  }
  throw UsageError("plan", fmt::format("device (--gpu): expected one of {}, got \"{}\"", names, name));
}

const DeviceModel* device_model_of(std::string_view device_name) {
  const std::string lower = io::lower_case(std::string(device_name));
  // A part of a device, which has neither its peak nor its memory: of MIG, or of a virtual machine.
  if (lower.find(" mig ") != lower.npos || lower.starts_with("grid ")) return nullptr;
  const auto found = std::find_if(std::begin(kDevices), std::end(kDevices), [&](const DeviceModel& device) {
    const std::size_t at = lower.find(device.name), end = at + device.name.size();
    return at != lower.npos && (end == lower.size() || lower[end] < '0' || lower[end] > '9');  // a100, but not a1000
  });
  return found == std::end(kDevices) ? nullptr : &*found;
}

double dense_tflops_bf16(std::string_view device_name) {
  // NVIDIA's data sheets of H100 and H200, half of the figures with sparsity.
  constexpr std::pair<std::string_view, double> kVariants[] = {
      {"H100 PCIe", 756}, {"H100 NVL", 835.5}, {"H200 NVL", 835.5}, {"GH200", 989.5}};
  for (const auto& [variant, tflops] : kVariants) {
    if (device_name.find(variant) != device_name.npos) return tflops;
  }
  const DeviceModel* const model = device_model_of(device_name);
  return model == nullptr ? 0 : model->dense_tflops_bf16;
}

GroupPlacement place_groups(const NodeLayout& layout, int ranks, int stride) {
  GroupPlacement result{ranks, 1};
  const int groups = std::min(kMostGroups, std::max(1, layout.run_ranks / ranks));
  for (int group = 0; group < groups; ++group) {
    const int first = group / stride * stride * ranks + group % stride;
    int share = 0, nodes = 1;
    for (int i = 0; i < ranks; ++i) {
      const int node = (first + i * stride) / layout.ranks_per_node;
      const int previous = i == 0 ? node : (first + (i - 1) * stride) / layout.ranks_per_node;
      if (node != previous) result.smallest_share = std::min(result.smallest_share, share), share = 0, ++nodes;
      ++share;
    }
    result.smallest_share = std::min(result.smallest_share, share);
    result.nodes = std::max(result.nodes, nodes);
  }
  return result;
}

CollectiveCost collective_cost(const DeviceModel& device, const GroupPlacement& group, const CollectiveShape& shape) {
  if (shape.ranks < 2) return {};
  const double ranks = shape.ranks, share = group.smallest_share, nodes = group.nodes;
  const double sent = static_cast<double>(shape.bytes) / shape.rounds, chunk = sent / (ranks - 1) / share;
  const double slice = chunk / std::max(1.0, std::ceil(chunk / kSliceBytes));
  const auto us = [](double bytes, double gb_s) { return bytes / gb_s * 1e-3; };

  // One ring of `share` leaves an even node at each of its ranks, so a port inside the node serves all but one.
  const bool leaves_everywhere = nodes > 1 && share * nodes == ranks;
  const double local_us = us(leaves_everywhere ? sent * (share - 1) / share : sent, device.local_gb_s);
  const double network_us = nodes > 1 ? us(sent / share, device.network_gb_s) : 0;
  const double last_hop_us = nodes > 1 ? device.network_hop_us : device.local_hop_us;

  // The longest way begins with a hop to another node. The whole ring has as many of these as nodes.
  const double network_hops = nodes > 1 ? std::min(nodes, ranks - 1) : 0;
  const double way_us = network_hops * (device.network_hop_us + us(slice, device.network_gb_s)) +
                        (ranks - 1 - network_hops) * (device.local_hop_us + us(slice, device.local_gb_s));

  const double once_us = device.collective_us + std::max(std::max(local_us, network_us) + last_hop_us, way_us);
  return {shape.rounds * once_us / 1e3, shape.rounds * local_us / 1e3,
          nodes > 1 && std::max(network_us, way_us) > local_us};
}

}  // namespace lt::planner
