// Restores an engine from the copies that earlier starts of a run left in the memory of its hosts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/memory/memory_copy.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"
#include "save/memory_hosts.h"

namespace lt::saver {

class StateParts;

// Every call is a collective: all ranks of the run must make the same calls.
class MemoryRestore {
 public:
  // Looks for copies of this run and timeline, written by the same number of ranks, and verifies them.
  MemoryRestore(const Group& group, const std::string& run, const std::string& timeline);

  // The newest step for which the hosts together hold an intact copy of every rank; 0: none.
  Size step() const { return step_; }
  // Puts the engine into the state of step(). State that is not on a rank's host is sent by another host. Throws
  // DataError if the copies belong to another model.
  checkpoint::CopySeal load(Engine& engine) const;
  // Returns the program's state of step(), on every rank. Throws DataError if the copy has changed since it was
  // verified.
  State program_state() const;

 private:
  // A sealed copy, known to all ranks.
  struct Copy {
    int owner;         // the rank whose state it holds
    int rank;          // the rank that verified it on its own host
    std::string file;  // its file name there
  };
  // Returns 0 for a copy of another timeline or number of ranks, or without a seal.
  Size step_of(const checkpoint::MemoryCopy& copy) const;
  std::vector<Size> complete_steps() const;
  std::vector<Copy> verified_copies(Size step) const;
  std::vector<const checkpoint::MemoryCopy*> copies_here() const;
  void take_from_all_hosts(StateParts& parts) const;

  const Group group_;
  const MemoryHosts hosts_;
  const std::uint64_t timeline_;
  const std::map<std::string, std::unique_ptr<checkpoint::MemoryCopy>> found_;  // on this host, by file name
  Size step_ = 0;
  std::vector<Copy> copies_;  // the verified copies of step_
};

}  // namespace lt::saver
