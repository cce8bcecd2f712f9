// One block for buffers that live as long as each other: a window takes milliseconds to make, and a CUDA device rounds
// each block up to its pages.
#pragma once

#include <memory>

#include "libtrain/memory/memory.h"
#include "memory/buffer.h"

namespace lt::parallel {

// Gives consecutive parts of its block, and takes none back.
class SharedBlock final : public memory::BlockSource {
 public:
  // From `source` unless it is null.
  SharedBlock(Size bytes, Device device, MemoryOwner owner, const std::shared_ptr<memory::BlockSource>& source);

  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t) noexcept override {}

 private:
  std::unique_ptr<memory::Buffer> block_;
  Size taken_ = 0;
};

}  // namespace lt::parallel
