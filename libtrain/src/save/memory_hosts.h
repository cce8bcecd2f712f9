// Finds the ranks that share the memory for copies of the state.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt::saver {

// Ranks with the same /dev/shm are on one host here: the ranks of a container, or of a machine without containers.
struct MemoryHosts {
  std::vector<std::vector<int>> ranks;  // by host; hosts are numbered in the order of their first ranks
  std::vector<int> host_of;             // by rank
  std::vector<int> place_of;            // by rank: index among the ranks of its host

  int count() const { return static_cast<int>(ranks.size()); }
};
// All ranks of `group` must call it.
MemoryHosts memory_hosts(const Group& group);

}  // namespace lt::saver
