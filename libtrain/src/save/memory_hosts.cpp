// Identifies shared memory by the kernel's identity and the device number of /dev/shm.
#include "save/memory_hosts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "device/host.h"

namespace lt::saver {
namespace {

std::string identity_of_shared_memory() {
  struct stat status {};
  ::stat("/dev/shm", &status);
  return fmt::format("{} {}", device::kernel_identity(), status.st_dev);
}

}  // namespace

MemoryHosts memory_hosts(const Group& group) {
  const std::vector<std::string> identities = group.all_gather_bytes(identity_of_shared_memory());
  MemoryHosts hosts;
  std::vector<std::string> known;
  for (const std::string& identity : identities) {
    const auto found = std::find(known.begin(), known.end(), identity);
    const auto host = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) known.push_back(identity), hosts.ranks.emplace_back();
    hosts.ranks[host].push_back(static_cast<int>(hosts.host_of.size()));
    hosts.host_of.push_back(static_cast<int>(host));
    hosts.place_of.push_back(static_cast<int>(hosts.ranks[host].size()) - 1);
  }
  return hosts;
}

}  // namespace lt::saver
