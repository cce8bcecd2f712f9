// Allocates the block and hands out its ranges.
#include "parallel/shared_block.h"

#include <fmt/format.h>

#include <utility>

#include "libtrain/error.h"

namespace lt::parallel {

SharedBlock::SharedBlock(Size bytes, Device device, MemoryOwner owner,
                         const std::shared_ptr<memory::BlockSource>& source) {
  const MemoryScope scope(owner);
  const memory::AllocationScope from(source, device);
  block_ = std::make_unique<memory::Allocation>(bytes, device);
}

memory::BlockSource::Block SharedBlock::allocate(Size bytes, MemoryOwner) {
  if (taken_ + bytes > block_->bytes()) {
    throw InternalError("memory", fmt::format("shared block: {} of {} bytes are taken, {} more do not fit", taken_,
                                              block_->bytes(), bytes));
  }
  return {block_->data() + std::exchange(taken_, taken_ + bytes), 0};
}

}  // namespace lt::parallel
