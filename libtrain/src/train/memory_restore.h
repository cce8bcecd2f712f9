// What earlier starts of a run left in the memory of its hosts, and how an engine gets it back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/parallel/engine.h"
#include "memory_copy.h"
#include "train/memory_hosts.h"

namespace lt {

class StateParts;

// All ranks of the run call all of it alike.
class MemoryRestore {
 public:
  // Looks for copies of the run with this id, of this timeline and of as many ranks, and verifies them.
  MemoryRestore(const Group& group, const std::string& run, const std::string& timeline);

  // The newest step of which each rank's copy is on some host, as it was sealed; 0: none.
  Size step() const { return step_; }
  // Puts the engine into the state of step(); what is not on a rank's host comes from another one. Throws DataError
  // where the copies are of another model.
  checkpoint::CopySeal load(Engine& engine) const;

 private:
  // A sealed copy, known to all ranks.
  struct Copy {
    int owner;         // the rank whose state it is
    int rank;          // that has it on its host and answers for it
    std::string file;  // its name there
  };
  // 0 for a copy that does not count.
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
  std::vector<Copy> copies_;  // of step_
};

}  // namespace lt
