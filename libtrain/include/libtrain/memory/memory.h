// The ledger: bytes held on each device, by owner. Every tensor is allocated for an owner. The ledger keeps the live
// bytes and the high-water mark of each device, with sizes rounded up to kAllocationAlignment. The `meta` device counts
// the same bytes as a real one, so memory is known before a run.
#pragma once

#include <array>
#include <cstddef>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/device/device.h"
#include "libtrain/device/memory_owner.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// The address and the size of every block are multiples of this many bytes.
inline constexpr Size kAllocationAlignment = 128;

struct MemoryUse {
  std::array<Size, kMemoryOwners> by_owner{};  // bytes
  Size total = 0;                              // bytes

  Size of(MemoryOwner owner) const { return by_owner[static_cast<std::size_t>(owner)]; }
};

// Returns the bytes held now. Thread-safe, like the functions below.
MemoryUse memory_live(Device device);
// Returns the bytes held at the moment of the highest total since the last reset.
MemoryUse memory_peak(Device device);
// Returns each owner's own highest value since the last reset, and the total of memory_peak(). Owners may peak at
// different times, so their sum may exceed the total.
MemoryUse memory_peak_by_owner(Device device);
// Resets the high-water marks to the live bytes.
void reset_memory_peak(Device device);

// Sets the owner of the tensors that this thread allocates until the scope ends. Scopes nest. Without a scope the owner
// is MemoryOwner::activations.
using MemoryScope = ContextMemberScope<&Context::owner>;

}  // namespace lt
