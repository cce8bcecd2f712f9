// Which ranks share the memory in which copies of the state lie.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt {

// Ranks with the same /dev/shm count as one host: those of a container, or of a machine without containers.
struct MemoryHosts {
  std::vector<std::vector<int>> ranks;  // of each host; hosts are numbered in the order of their first ranks
  std::vector<int> host_of;             // of each rank
  std::vector<int> place_of;            // of each rank among those of its host

  int count() const { return static_cast<int>(ranks.size()); }
};
// All ranks of `group` call it.
MemoryHosts memory_hosts(const Group& group);

}  // namespace lt
