// Bytes held on each device, by owner. Every tensor is allocated for an owner. The ledger keeps live bytes and the
// high-water mark per device, counted in blocks of kAllocationAlignment bytes. The `meta` device counts the same bytes
// as a real one, so memory is known before a run.
#pragma once

#include <array>
#include <cstddef>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/device/device.h"
#include "libtrain/device/memory_owner.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// Every block starts at, and occupies, a multiple of this many bytes.
inline constexpr Size kAllocationAlignment = 128;

struct MemoryUse {
  std::array<Size, kMemoryOwners> by_owner{};
  Size total = 0;

  Size of(MemoryOwner owner) const { return by_owner[static_cast<std::size_t>(owner)]; }
};

// Bytes held now, and the breakdown at the moment of the highest total since the last reset.
MemoryUse memory_live(Device device);
MemoryUse memory_peak(Device device);
// Each owner's own highest value since the last reset; owners may peak at different times.
MemoryUse memory_peak_by_owner(Device device);
// Resets the high-water marks to the live bytes.
void reset_memory_peak(Device device);

// Assigns tensors that this thread allocates during the scope to the owner. Scopes nest; the default is activations.
using MemoryScope = ContextMemberScope<&Context::owner>;

}  // namespace lt
