// The arena: one preallocated block that holds all memory of a step. A rehearsal (a dry run of a training step or an
// evaluation on shapes only) records the allocations. Afterwards the k-th allocation of the step gets the k-th offset
// in the arena, so a step allocates nothing.
#pragma once

#include <memory>
#include <string>

#include "libtrain/memory/memory_plan.h"
#include "memory/allocation.h"

namespace lt::memory {

// Runs `body` and records which blocks this thread allocates and frees on `device`, and when. The blocks are allocated
// by the device's allocator. Throws UsageError if a block outlives the body.
template <class F>
MemoryPlan record_memory_plan(std::string name, Device device, F&& body);

// Memory for one step at a time. The ledger counts its bytes as slack, except those that a running step holds.
class Arena {
 public:
  // Takes its storage from `source`, or from the device's allocator if `source` is null.
  Arena(Size bytes, Device device, std::shared_ptr<BlockSource> source = nullptr)
      : storage_(make_storage(bytes, device, std::move(source))), bytes_(bytes), device_(device) {}

  Size bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Runs `body`. Its k-th allocation gets the k-th offset of `plan`. Throws InternalError if the plan does not fit into
  // the arena. Throws UsageError if an allocation differs from the record (the message names the operation), if any
  // recorded one is missing, and if a block outlives the body.
  template <class F>
  void run(std::shared_ptr<const MemoryPlan> plan, F&& body) const;

 private:
  friend class Replay;
  static std::shared_ptr<Allocation> make_storage(Size bytes, Device device, std::shared_ptr<BlockSource> source);

  std::shared_ptr<Allocation> storage_;
  Size bytes_;
  Device device_;
};

class Recorder final : public BlockSource {
 public:
  explicit Recorder(Device device) : device_(device) {}
  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t index) noexcept override;
  // Throws UsageError if a block is still in use.
  MemoryPlan finish(std::string name);

 private:
  Device device_;
  bool counted_ = Context::current().counts_memory;
  std::vector<Lifetime> lifetimes_;
  std::vector<void*> blocks_;
  std::int64_t time_ = 0;
};

class Replay final : public BlockSource {
 public:
  // The arena must be empty at the start.
  Replay(const Arena& arena, std::shared_ptr<const MemoryPlan> plan);
  Block allocate(Size bytes, MemoryOwner owner) override;
  void release(std::size_t index) noexcept override;
  void finish() const;

 private:
  std::shared_ptr<Allocation> storage_;
  Device device_;
  std::shared_ptr<const MemoryPlan> plan_;  // shared: if the body throws, blocks may outlive the engine
  std::size_t next_ = 0, live_ = 0;
};

template <class F>
MemoryPlan record_memory_plan(std::string name, Device device, F&& body) {
  const auto recorder = std::make_shared<Recorder>(device);
  {
    const AllocationScope scope(recorder, device);
    body();
  }
  return recorder->finish(std::move(name));
}

template <class F>
void Arena::run(std::shared_ptr<const MemoryPlan> plan, F&& body) const {
  const auto replay = std::make_shared<Replay>(*this, std::move(plan));
  {
    const AllocationScope scope(replay, device_);
    body();
  }
  replay->finish();
}

}  // namespace lt::memory
