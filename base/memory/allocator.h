// The allocators that provide all memory of a device.
#pragma once

#include "libtrain/memory/memory.h"

namespace lt::memory {

// Allocates blocks of one device. Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns at least `bytes` bytes aligned to kAllocationAlignment. If the system has too little memory, returns the
  // free blocks that are kept for reuse and tries again. Throws InternalError if that fails too.
  virtual void* allocate(Size bytes) = 0;
  virtual void deallocate(void* block, Size bytes) = 0;
};

Allocator& allocator(Device device);

// Returns the free blocks that are kept for reuse to the system. On a CUDA device, waits for the device.
void trim(Device device);

// Returns the bytes of free CPU blocks that are kept for reuse. If they exceed the peak of live bytes by more than 1
// GiB, they are returned to the system before it is asked for another block.
Size kept_bytes();

// Returns the bytes that cudaMalloc() would add to the meta device's live blocks: it rounds blocks of more than 1 MiB
// up to whole pages of 2 MiB.
Size meta_rounding_bytes();

// Returns how often the allocators have requested memory from the system since the start.
Size system_allocations();

}  // namespace lt::memory
