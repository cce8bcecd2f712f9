// Two copies of a rank's state that take turns: while one is overwritten the other one is whole.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory_copy.h"

namespace lt {

inline constexpr int kMemorySlots = 2;

class CopySlots {
 public:
  // Files <folder of the run>/<name>-a and -b. Throws DataError.
  CopySlots(const std::string& name, const checkpoint::CopyOwner& owner,
            const std::vector<checkpoint::CopyRange>& layout);

  const std::string& name() const { return name_; }
  // The one whose turn it is: not sealed, or older than the other.
  checkpoint::MemoryCopy& next() const;
  const std::array<std::unique_ptr<checkpoint::MemoryCopy>, kMemorySlots>& both() const { return slots_; }
  // Copies of other timelines and of later steps are void.
  void keep_until(Size step, std::uint64_t timeline) const;

 private:
  std::string name_;
  std::array<std::unique_ptr<checkpoint::MemoryCopy>, kMemorySlots> slots_;
};

}  // namespace lt
