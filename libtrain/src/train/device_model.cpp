// The table of devices.
#include "train/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "libtrain/error.h"

namespace lt {
namespace {

constexpr int kOneNode = 1 << 30;

// clang-format off
constexpr DeviceModel kDevices[] = {
    // name   products      attention forward, backward   f32    memory dense  links    start hops      node     overlap
    //        f32    bf16   D < 128, D >= 128                    GB/s   bf16   GB/s     us    us
    {"h100",  48,    742,   {346, 595},   {255, 489},     0.065, 2900,  989.5, 345, 45, 10,   1.0, 4.0, 8,       true},
    {"h200",  48,    742,   {346, 595},   {255, 489},     0.065, 4200,  989.5, 345, 45, 10,   1.0, 4.0, 8,       true},
    {"a100",  17,    234,   {109, 188},   {80, 154},      0.073, 1750,  312,   230, 22, 10,   1.0, 4.0, 8,       true},
    {"cpu",   0.185, 0.43,  {0.21, 0.21}, {0.21, 0.21},   0.5,   20,    0,     3,   3,  20,   5.0, 5.0, kOneNode,false},
};
// clang-format on

}  // namespace

const DeviceModel& find_device_model(std::string_view name) {
  for (const DeviceModel& device : kDevices) {
    if (device.name == name) return device;
  }
  throw UsageError("plan",
                   fmt::format("--gpu: expected one of {}, got \"{}\"", fmt::join(device_model_names(), ", "), name));
}

std::vector<std::string_view> device_model_names() {
  std::vector<std::string_view> names;
  for (const DeviceModel& device : kDevices) names.push_back(device.name);
  return names;
}

CollectiveCost collective_cost(const DeviceModel& device, int ranks_per_node, const CollectiveShape& shape) {
  if (shape.ranks < 2) return {};
  const double ranks = shape.ranks;
  const double in_node = std::clamp(std::floor(static_cast<double>(ranks_per_node) / shape.stride), 1.0, ranks);
  const double nodes = std::ceil(ranks / in_node);
  const double sent = static_cast<double>(shape.bytes), whole = sent * ranks / (ranks - 1);
  const double local_s = in_node > 1 ? sent / (device.local_gb_s * 1e9) : 0;
  const double network_s = nodes > 1 ? whole * (nodes - 1) / nodes / (in_node * device.network_gb_s * 1e9) : 0;
  const double hops_us = (nodes - 1) * device.network_hop_us + (ranks - nodes) * device.local_hop_us;
  return {(device.collective_us + hops_us) / 1e3 + std::max(local_s, network_s) * 1e3, network_s > local_s};
}

}  // namespace lt
