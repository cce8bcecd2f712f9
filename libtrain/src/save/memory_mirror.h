// Mirrors the copies of a host's ranks in the memory of the next host, so that the state survives the loss of a host.
// Each rank sends its copy to the rank in the same place on the next host, and keeps the copy of one rank of the
// previous host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "save/copy_slots.h"
#include "save/memory_hosts.h"

namespace lt::saver {

// File names of a rank's own copies, and of the copies of `rank` on the next host.
std::string slots_name(int rank);
std::string mirror_name(int rank);
// The rank whose copies `rank` keeps. Returns -1 on a single host, or if hosts have different numbers of ranks.
int mirrored_rank(const MemoryHosts& hosts, int rank);

class MemoryMirror {
 public:
  // All ranks of `group` must construct it with the same hosts. Throws DataError.
  MemoryMirror(const Group& group, const MemoryHosts& hosts, const checkpoint::CopyOwner& owner,
               const std::vector<checkpoint::CopyRange>& layout);

  // False on a single host, or if hosts have different numbers of ranks.
  bool exists() const { return !exchanges_.empty(); }
  // The copies that this rank keeps for a peer; null if it keeps none.
  const CopySlots* kept() const;
  // Sends a copy, and receives and keeps the peer's copy, which is sealed if the peer's is. All ranks must call it. It
  // may run on a background thread. Throws DataError if there is no memory for the peer's state of the program.
  void exchange(const checkpoint::MemoryCopy& copy) const;

 private:
  // A pair of ranks; one sends to the other.
  struct Exchange {
    Group pair;
    int sender;                       // its rank in the pair
    std::unique_ptr<CopySlots> kept;  // null at the sender
  };

  std::vector<Exchange> exchanges_;
};

}  // namespace lt::saver
