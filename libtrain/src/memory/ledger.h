// Who holds how many bytes of each device, now and at the most.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt {

// Adds `bytes`, which may be negative, to what `owner` holds.
void ledger_add(Device device, MemoryOwner owner, Size bytes);
// Bytes of an arena pass from one owner to another; the total stays.
void ledger_move(Device device, MemoryOwner from, MemoryOwner to, Size bytes);

}  // namespace lt
