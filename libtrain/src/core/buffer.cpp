// Buffers and the scopes that decide where their blocks come from and whose they are.
#include "core/buffer.h"

#include "core/ledger.h"
#include "core/poison.h"
#include "libtrain/work_count.h"

namespace lt {
namespace {

thread_local MemoryOwner current_owner = MemoryOwner::activations;
thread_local std::shared_ptr<BlockSource> current_source;
thread_local Device current_source_device;
thread_local std::string_view current_operation;
thread_local bool uncounted = false;

Size round_up(Size bytes) { return (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment; }

}  // namespace

AllocationScope::AllocationScope(std::shared_ptr<BlockSource> source, Device device)
    : previous_source_(std::move(current_source)), previous_device_(current_source_device) {
  current_source = std::move(source), current_source_device = device;
}
AllocationScope::~AllocationScope() {
  current_source = std::move(previous_source_), current_source_device = previous_device_;
}

UncountedMemoryScope::UncountedMemoryScope() : previous_(uncounted) { uncounted = true; }
UncountedMemoryScope::~UncountedMemoryScope() { uncounted = previous_; }
bool UncountedMemoryScope::active() { return uncounted; }

OperationScope::OperationScope(std::string_view name) : previous_(current_operation), span_(Lane::compute, name) {
  current_operation = name;
}
OperationScope::~OperationScope() { current_operation = previous_; }
std::string_view OperationScope::current() { return current_operation; }

MemoryOwner current_memory_owner() { return current_owner; }

MemoryScope::MemoryScope(MemoryOwner owner) : previous_(current_owner) { current_owner = owner; }
MemoryScope::~MemoryScope() { current_owner = previous_; }

Buffer::Buffer(Size bytes, Device device) : bytes_(round_up(bytes)), device_(device), owner_(current_owner) {
  if (bytes_ == 0) return;
  if (owner_ == MemoryOwner::activations) count_traffic(2 * bytes_);
  if (current_source != nullptr && current_source_device == device) {
    const BlockSource::Block block = current_source->allocate(bytes_, owner_);
    block_ = block.data, index_ = block.index, source_ = current_source;
  } else {
    block_ = allocator(device).allocate(bytes_);
    counted_ = !uncounted;
    if (counted_) ledger_add(device, owner_, bytes_);
  }
  if (device.type == DeviceType::cpu && bytes_ > bytes) poison(data() + bytes, bytes_ - bytes);
}

Buffer::~Buffer() {
  if (block_ == nullptr) return;
  if (source_ != nullptr) {
    source_->release(index_);
  } else {
    if (counted_) ledger_add(device_, owner_, -bytes_);
    allocator(device_).deallocate(block_, bytes_);
  }
}

}  // namespace lt
