// An Allocation owns a block of device memory and its entry in the ledger. If an AllocationScope is active, the block
// comes from the scope's source (an arena or a recorder), otherwise from the device's allocator.
#pragma once

#include <memory>
#include <utility>

#include "libtrain/device/context.h"
#include "libtrain/memory/memory.h"
#include "memory/allocator.h"

namespace lt::memory {

// Provides the blocks for the Allocations of one thread, in the order of their requests.
class BlockSource {
 public:
  struct Block {
    std::byte* data;
    std::size_t index;  // for release()
  };
  virtual ~BlockSource() = default;
  // `bytes` is a positive multiple of kAllocationAlignment.
  virtual Block allocate(Size bytes, MemoryOwner owner) = 0;
  virtual void release(std::size_t index) noexcept = 0;
};

// Allocations that this thread makes on `device` during the scope come from `source`. Each one keeps the source alive.
class AllocationScope {
 public:
  AllocationScope(std::shared_ptr<BlockSource> source, Device device) : source_(std::move(source)), device_(device) {}

 private:
  const ContextMemberScope<&Context::blocks> source_;
  const ContextMemberScope<&Context::blocks_device> device_;
};

// The ledger does not count Allocations that this thread makes during the scope. Used for rehearsals (dry runs of a
// step on shapes only), which take no memory, and for the CPU originals of a module's constant buffers.
class UncountedMemoryScope {
 private:
  const ContextMemberScope<&Context::counts_memory> counts_{false};
};

// Rounds `bytes` up to a multiple of kAllocationAlignment, the bytes that an Allocation occupies.
constexpr Size occupied_bytes(Size bytes) {
  return (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
}

class Allocation {
 public:
  Allocation(Size bytes, Device device);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(block_); }
  Size bytes() const { return bytes_; }

 private:
  std::shared_ptr<BlockSource> source_;  // null if the block comes from the device's allocator
  std::size_t index_ = 0;
  void* block_ = nullptr;
  Size bytes_;
  Device device_;
  MemoryOwner owner_;
  bool counted_ = false;
};

}  // namespace lt::memory
