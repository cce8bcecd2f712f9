// Copies of a host's ranks in the memory of the next host, so that the state outlives a host: each rank sends its copy
// to the rank of the same place there, and keeps the copy of one rank of the host before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/copy_slots.h"
#include "train/memory_hosts.h"

namespace lt {

// Names of the files of a rank's own copies, and of those that another rank keeps.
std::string slots_name(int rank);
std::string mirror_name(int rank);
// The rank whose copies `rank` keeps; -1: none, as on one host or where hosts have different numbers of ranks.
int mirrored_rank(const MemoryHosts& hosts, int rank);

class MemoryMirror {
 public:
  // All ranks of `group` make it alike. Throws DataError.
  MemoryMirror(const Group& group, const MemoryHosts& hosts, const checkpoint::CopyOwner& owner,
               const std::vector<checkpoint::CopyRange>& layout);

  // On one host there is none, and none where hosts have different numbers of ranks.
  bool exists() const { return !exchanges_.empty(); }
  // The copies of a peer that are kept here; null where there are none.
  const CopySlots* kept() const;
  // Sends a sealed copy and keeps the peer's. All ranks call it; it may run on a thread in the background.
  void exchange(const checkpoint::MemoryCopy& copy) const;

 private:
  // One of two ranks sends to the other.
  struct Exchange {
    Group pair;
    int sender;                       // its rank in the pair
    std::unique_ptr<CopySlots> kept;  // null at the sender
  };

  std::vector<Exchange> exchanges_;
};

}  // namespace lt
