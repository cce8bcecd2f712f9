// Where every byte of a device comes from.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt {

// Blocks of one device. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes aligned to kAllocationAlignment; throws InternalError where there are none left.
  virtual void* allocate(Size bytes) = 0;
  virtual void deallocate(void* block, Size bytes) = 0;
};

Allocator& allocator(Device device);

// Gives freed blocks, which are kept for the next request of their size, back to the system.
void trim(Device device);

// How often the allocators have asked the system for memory since the start.
Size system_allocations();

}  // namespace lt
