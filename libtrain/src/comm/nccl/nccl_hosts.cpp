// Compares the names of hosts and devices between the ranks.
#include "comm/nccl/nccl_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "device/cuda.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

// Names the host as NCCL does, which tells hosts of one name apart by the start of their kernels.
std::string nccl_host_name() {
  if (const char* const name = std::getenv("NCCL_HOSTID"); name != nullptr) return name;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(host) + " " + boot;
}

}  // namespace

std::vector<int> hosts_of(const Group& group) {
  const auto names = group.all_gather_bytes(nccl_host_name());
  std::vector<int> hosts;
  for (const std::string& name : names) {
    hosts.push_back(static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
  }
  return hosts;
}

void require_own_devices(const Group& group, Device device) {
  const auto places = group.all_gather_bytes(nccl_host_name() + " " + device::cuda::bus_id(device.index));
  for (std::size_t r = 1; r < places.size(); ++r) {
    const auto first = std::find(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(r), places[r]);
    if (first == places.begin() + static_cast<std::ptrdiff_t>(r)) continue;
    throw UsageError("comm",
                     "ranks " + std::to_string(first - places.begin()) + " and " + std::to_string(r) +
                         ": expected a CUDA device for each, both have " + places[r],
                     "as many ranks on a host as it has devices");
  }
}

}  // namespace lt::comm
