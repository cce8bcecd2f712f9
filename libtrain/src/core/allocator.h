// Where every byte of a device comes from. A tensor's Buffer returns its block when its last owner goes.
#pragma once

#include <memory>

#include "libtrain/memory.h"

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

// The owner that the current MemoryScope of this thread names.
MemoryOwner current_memory_owner();

// A block and its entry in the ledger.
class Buffer {
 public:
  Buffer(Size bytes, Device device);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(block_); }
  Size bytes() const { return bytes_; }

 private:
  void* block_;
  Size bytes_;
  Device device_;
  MemoryOwner owner_;
};

}  // namespace lt
