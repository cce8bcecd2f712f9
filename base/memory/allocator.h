// The allocators that provide all memory of a device.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt::memory {

// Allocates blocks of one device. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns at least `bytes` bytes aligned to kAllocationAlignment. If the system has not enough memory left, freed
  // blocks that are kept are returned to it first. Throws InternalError if that does not suffice.
  virtual void* allocate(Size bytes) = 0;
  virtual void deallocate(void* block, Size bytes) = 0;
};

Allocator& allocator(Device device);

// Returns the freed blocks that are kept for reuse to the system. On a CUDA device it waits for the device.
void trim(Device device);

// The bytes of the CPU's freed blocks that are kept. If they are 1 GiB more than were ever live at once, they return to
// the system before another block is taken from it.
Size kept_bytes();

// The bytes that the live blocks of the meta device would take on a CUDA device beyond their own: cudaMalloc() gives
// blocks of more than 1 MiB in whole pages of 2 MiB.
Size meta_rounding_bytes();

// How often the allocators have requested memory from the system since the start.
Size system_allocations();

}  // namespace lt::memory
