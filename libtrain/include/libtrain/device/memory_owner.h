// Owners of memory: the purposes for which the ledger counts allocated bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "libtrain/api.h"

namespace LT_API lt {

enum class MemoryOwner : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  communication,
  workspace,
  data,
  slack,      // bytes of an arena (preallocated step memory) that no block uses now
  constants,  // buffers of modules
};
inline constexpr int kMemoryOwners = 9;
inline constexpr std::array<std::string_view, kMemoryOwners> kMemoryOwnerNames = {
    "parameters", "gradients", "optimizer", "activations", "communication", "workspace", "data", "slack", "constants"};

}  // namespace lt
