// Records a step's allocations and replays them in an arena.
#include "memory/arena.h"

#include "libtrain/error.h"
#include "memory/ledger.h"
#include "memory/poison.h"

namespace lt::memory {
namespace {

std::string describe(const Lifetime& entry) {
  return std::to_string(entry.bytes) + " bytes of " +
         std::string(kMemoryOwnerNames[static_cast<std::size_t>(entry.owner)]) +
         (entry.operation.empty() ? "" : " in " + entry.operation);
}

// The library's own models allocate alike each time and keep nothing, so this is another model's doing.
UsageError other_use(const std::string& message) {
  return {
      "memory", message,
      "a model must keep no tensor of a pass, not even the loss, so copy values to the host; and it must make the same "
      "tensors for all batches of the same shapes"};
}

}  // namespace

BlockSource::Block Recorder::allocate(Size bytes, MemoryOwner owner) {
  void* const block = allocator(device_).allocate(bytes);
  if (counted_) ledger_add(device_, owner, bytes);
  lifetimes_.push_back({bytes, time_++, -1, owner, std::string(Context::current().operation)});
  blocks_.push_back(block);
  return {static_cast<std::byte*>(block), lifetimes_.size() - 1};
}

void Recorder::release(std::size_t index) noexcept {
  Lifetime& entry = lifetimes_[index];
  entry.end = time_++;
  if (counted_) ledger_add(device_, entry.owner, -entry.bytes);
  allocator(device_).deallocate(blocks_[index], entry.bytes);
}

MemoryPlan Recorder::finish(std::string name) {
  for (const Lifetime& entry : lifetimes_) {
    if (entry.end < 0) throw other_use(name + ": expected all blocks back at its end, found " + describe(entry));
  }
  Packing packing = pack(lifetimes_);
  return {std::move(name), std::move(lifetimes_), std::move(packing)};
}

std::shared_ptr<Allocation> Arena::make_storage(Size bytes, Device device, std::shared_ptr<BlockSource> source) {
  const MemoryScope owner(MemoryOwner::slack);
  const AllocationScope scope(std::move(source), device);
  return std::make_shared<Allocation>(bytes, device);
}

Replay::Replay(const Arena& arena, std::shared_ptr<const MemoryPlan> plan)
    : storage_(arena.storage_), device_(arena.device()), plan_(std::move(plan)) {
  if (plan_->packing.bytes > arena.bytes()) {
    throw InternalError("memory", plan_->name + ": expected an arena of " + std::to_string(plan_->packing.bytes) +
                                      " bytes, it has " + std::to_string(arena.bytes()));
  }
  if (device_.type == DeviceType::cpu && storage_->data() != nullptr) poison(storage_->data(), arena.bytes());
}

BlockSource::Block Replay::allocate(Size bytes, MemoryOwner owner) {
  const auto asked = [&] { return Lifetime{bytes, 0, 0, owner, std::string(Context::current().operation)}; };
  if (next_ == plan_->lifetimes.size()) {
    throw other_use(plan_->name + ": expected no allocation after the last of " + std::to_string(next_) + ", found " +
                    describe(asked()));
  }
  const Lifetime& recorded = plan_->lifetimes[next_];
  if (bytes != recorded.bytes || owner != recorded.owner || Context::current().operation != recorded.operation) {
    throw other_use(plan_->name + ", allocation " + std::to_string(next_ + 1) + ": expected " + describe(recorded) +
                    ", found " + describe(asked()));
  }
  std::byte* const data = storage_->data() + plan_->packing.offsets[next_];
  if (device_.type == DeviceType::cpu) unpoison(data, bytes);
  ledger_move(device_, MemoryOwner::slack, owner, bytes);
  ++live_;
  return {data, next_++};
}

void Replay::release(std::size_t index) noexcept {
  const Lifetime& entry = plan_->lifetimes[index];
  if (device_.type == DeviceType::cpu) poison(storage_->data() + plan_->packing.offsets[index], entry.bytes);
  ledger_move(device_, entry.owner, MemoryOwner::slack, entry.bytes);
  --live_;
}

void Replay::finish() const {
  if (next_ != plan_->lifetimes.size()) {
    throw other_use(plan_->name + ": expected " + std::to_string(plan_->lifetimes.size()) + " allocations, found " +
                    std::to_string(next_));
  }
  if (live_ != 0) {
    throw other_use(plan_->name + ": expected all blocks back at its end, found " + std::to_string(live_) + " in use");
  }
}

}  // namespace lt::memory
