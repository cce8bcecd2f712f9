// StepMemory: the memory plans of an engine (training step, evaluation) and the arena that they share. A batch of new
// shapes starts a rehearsal of the step on shapes alone; after that such steps allocate nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "libtrain/comm/group.h"
#include "libtrain/tensor/batch.h"
#include "memory/arena.h"

namespace lt::parallel {

// Shapes and dtypes of its tensors, and whether they lie on a GPU: a memory plan depends on nothing else in a batch.
std::string shapes_of(const Batch& batch);
// The key of the memory plan for the step `name` and such batches.
inline std::string plan_key(const std::string& name, const Batch& batch) { return name + shapes_of(batch); }

// For an arena in a window: throws InternalError on all ranks if the offsets on one rank differ from those of rank 0.
void require_same_places(const MemoryPlan& plan, const Group& group);

class StepMemory {
 public:
  // Runs the step on batches of the meta device, records its allocations, and leaves everything as it was.
  using Rehearsal = std::function<MemoryPlan(const std::string& name, const Batch& shapes)>;

  // The arena comes from `source`, or from the device's allocator if `source` is null.
  explicit StepMemory(Device device, std::shared_ptr<memory::BlockSource> source = nullptr)
      : device_(device), source_(std::move(source)) {}

  // The plan of the step `name` for batches like `batch`; rehearses the step if the plan is new.
  std::shared_ptr<const MemoryPlan> prepare(const std::string& name, const Batch& batch, const Rehearsal& rehearse);
  // The next such batch is rehearsed again.
  void forget(const std::string& key) { plans_.erase(key); }
  // Makes room for the largest plan. The contents of a smaller arena are lost. If there is no such room, throws and has
  // no arena; then forget() the plans that ask for it.
  void reserve();
  // Frees the arena.
  void release() { arena_.reset(); }

  // Runs `body`, the step of `plan`, in the arena. reserve() must have followed prepare().
  template <class F>
  void run(const std::shared_ptr<const MemoryPlan>& plan, F&& body) {
    arena_->run(plan, std::forward<F>(body));
  }
  // prepare(), reserve() and run().
  template <class F>
  void run(const std::string& name, const Batch& batch, const Rehearsal& rehearse, F&& body) {
    const auto plan = prepare(name, batch, rehearse);
    try {
      reserve();
    } catch (...) {
      forget(plan_key(name, batch));
      throw;
    }
    run(plan, std::forward<F>(body));
  }

  using Plans = std::map<std::string, std::shared_ptr<const MemoryPlan>>;  // by plan_key()
  const Plans& plans() const { return plans_; }
  Size arena_bytes() const { return arena_ ? arena_->bytes() : 0; }
  // Identifies the arena, because a later one may lie at the same address.
  Size arena_number() const { return arenas_; }

 private:
  Device device_;
  std::shared_ptr<memory::BlockSource> source_;
  Plans plans_;
  Size arenas_ = 0;  // made so far
  std::optional<memory::Arena> arena_;
};

}  // namespace lt::parallel
