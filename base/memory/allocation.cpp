// Takes a buffer's block from its source, counts it in the ledger, and gives it back.
#include "memory/allocation.h"

#include "memory/ledger.h"
#include "memory/poison.h"
#include "profile/work_count.h"

namespace lt::memory {
Allocation::Allocation(Size bytes, Device device)
    : bytes_(occupied_bytes(bytes)), device_(device), owner_(Context::current().owner) {
  if (bytes_ == 0) return;
  if (owner_ == MemoryOwner::activations) profile::count_operation(bytes_);
  const Context& context = Context::current();
  if (context.blocks != nullptr && context.blocks_device == device) {
    const BlockSource::Block block = context.blocks->allocate(bytes_, owner_);
    block_ = block.data, index_ = block.index, source_ = context.blocks;
  } else {
    block_ = allocator(device).allocate(bytes_);
    counted_ = context.counts_memory;
    if (counted_) ledger_add(device, owner_, bytes_);
  }
  if (device.type == DeviceType::cpu && bytes_ > bytes) poison(data() + bytes, bytes_ - bytes);
}

Allocation::~Allocation() {
  if (block_ == nullptr) return;
  if (source_ != nullptr) {
    source_->release(index_);
  } else {
    if (counted_) ledger_add(device_, owner_, -bytes_);
    allocator(device_).deallocate(block_, bytes_);
  }
}

}  // namespace lt::memory
