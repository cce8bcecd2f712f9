// One block for buffers that live equally long. It saves time and memory: a window takes milliseconds to make, and a
// CUDA device rounds each block up to its pages.
#pragma once

#include <memory>

#include "libtrain/memory/memory.h"
#include "memory/allocation.h"

namespace lt::parallel {

// Hands out consecutive ranges of its block. release() does nothing.
class SharedBlock final : public memory::BlockSource {
 public:
  // Allocates the block from `source`, or from the device's allocator if `source` is null.
  SharedBlock(Size bytes, Device device, MemoryOwner owner, const std::shared_ptr<memory::BlockSource>& source);

  // Throws InternalError if the block has not enough bytes left.
  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t) noexcept override {}

 private:
  std::unique_ptr<memory::Allocation> block_;
  Size taken_ = 0;
};

}  // namespace lt::parallel
