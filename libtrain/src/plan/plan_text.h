// Text shared by plans, fits and logs.
#pragma once

#include <string>
#include <vector>

#include "libtrain/plan/planner.h"
#include "record/short_text.h"

namespace lt::planner {

// For example "h200" or "2 cpu cores a rank".
inline std::string device_text(const PlanMachine& machine) {
  if (machine.device != "cpu") return machine.device;
  return recorder::counted(machine.cores, "cpu core") + " a rank";
}

// The owners that a ledger (bytes by owner) shows, in order. Includes constants only if it has some.
inline std::vector<MemoryOwner> owners_shown(const MemoryUse& ledger) {
  std::vector<MemoryOwner> owners{MemoryOwner::parameters};
  if (ledger.of(MemoryOwner::constants) > 0) owners.push_back(MemoryOwner::constants);
  for (int i = 1; i < kMemoryOwners; ++i) {
    const auto owner = static_cast<MemoryOwner>(i);
    if (owner != MemoryOwner::constants) owners.push_back(owner);
  }
  return owners;
}
inline std::string name_of(MemoryOwner owner) {
  return std::string(kMemoryOwnerNames[static_cast<std::size_t>(owner)]);
}

}  // namespace lt::planner
