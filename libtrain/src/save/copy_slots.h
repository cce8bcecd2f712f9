// Two copies of a rank's state, used alternately. While one is overwritten, the other one is complete.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/memory/memory_copy.h"

namespace lt::saver {

inline constexpr int kMemorySlots = 2;

class CopySlots {
 public:
  // Creates the files <folder of the run>/<name>-a and -b. Throws DataError.
  CopySlots(const std::string& name, const checkpoint::CopyOwner& owner,
            const std::vector<checkpoint::CopyRange>& layout);

  // True if there are files of an earlier start that the constructor would reuse.
  static bool exist(const std::string& name, const checkpoint::CopyOwner& owner,
                    const std::vector<checkpoint::CopyRange>& layout);

  const std::string& name() const { return name_; }
  // The copy to overwrite next: one that is not sealed, otherwise the older one.
  checkpoint::MemoryCopy& next() const;
  const std::array<std::unique_ptr<checkpoint::MemoryCopy>, kMemorySlots>& both() const { return slots_; }
  // Invalidates copies of other timelines and of later steps.
  void keep_until(Size step, std::uint64_t timeline) const;

 private:
  std::string name_;
  std::array<std::unique_ptr<checkpoint::MemoryCopy>, kMemorySlots> slots_;
};

}  // namespace lt::saver
