// The ledger counts each device's bytes by owner, live and at the peak.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt::memory {

// Adds `bytes`, which may be negative, to the bytes of `owner`.
void ledger_add(Device device, MemoryOwner owner, Size bytes);
// Moves bytes of an arena from one owner to another. The total does not change.
void ledger_move(Device device, MemoryOwner from, MemoryOwner to, Size bytes);

}  // namespace lt::memory
