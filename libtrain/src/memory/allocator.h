// The allocators that provide every byte of a device.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt {

// Allocates blocks of one device. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns at least `bytes` bytes aligned to kAllocationAlignment. Throws InternalError if memory runs out.
  virtual void* allocate(Size bytes) = 0;
  virtual void deallocate(void* block, Size bytes) = 0;
};

Allocator& allocator(Device device);

// Returns freed blocks, which are kept for the next request of their size, to the system.
void trim(Device device);

// How often the allocators have asked the system for memory since the start.
Size system_allocations();

}  // namespace lt
