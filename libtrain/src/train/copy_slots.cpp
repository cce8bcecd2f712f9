// Creates the files of the two copies and picks the one to overwrite next.
#include "train/copy_slots.h"

#include "memory_folder.h"

namespace lt {

CopySlots::CopySlots(const std::string& name, const checkpoint::CopyOwner& owner,
                     const std::vector<checkpoint::CopyRange>& layout)
    : name_(name) {
  checkpoint::make_memory_folder(owner.run);
  const auto make = [&](const char* turn) {
    return std::make_unique<checkpoint::MemoryCopy>(checkpoint::memory_folder(owner.run) / (name + turn), owner,
                                                    layout);
  };
  slots_ = {make("-a"), make("-b")};
}

checkpoint::MemoryCopy& CopySlots::next() const {
  return slots_[0]->sealed().step <= slots_[1]->sealed().step ? *slots_[0] : *slots_[1];
}

void CopySlots::keep_until(Size step, std::uint64_t timeline) const {
  for (const auto& slot : slots_) {
    const checkpoint::CopySeal seal = slot->sealed();
    if (seal.step > step || seal.timeline != timeline) slot->unseal();
  }
}

}  // namespace lt
