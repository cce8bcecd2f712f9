// Creates the files of the two copies and selects the one to overwrite next.
#include "save/copy_slots.h"

#include <algorithm>
#include <filesystem>

#include "checkpoints/memory/memory_folder.h"

namespace lt::saver {
namespace {

constexpr std::array<const char*, kMemorySlots> kTurns{"-a", "-b"};

std::filesystem::path file_of(const std::string& name, const checkpoint::CopyOwner& owner, const char* turn) {
  return checkpoint::memory_folder(owner.run) / (name + turn);
}

}  // namespace

bool CopySlots::exist(const std::string& name, const checkpoint::CopyOwner& owner,
                      const std::vector<checkpoint::CopyRange>& layout) {
  return std::ranges::all_of(kTurns, [&](const char* turn) {
    return checkpoint::MemoryCopy::fits(file_of(name, owner, turn), owner, layout);
  });
}

CopySlots::CopySlots(const std::string& name, const checkpoint::CopyOwner& owner,
                     const std::vector<checkpoint::CopyRange>& layout)
    : name_(name) {
  checkpoint::make_memory_folder(owner.run);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = std::make_unique<checkpoint::MemoryCopy>(file_of(name, owner, kTurns[i]), owner, layout);
  }
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

}  // namespace lt::saver
