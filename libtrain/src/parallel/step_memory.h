// StepMemory: the memory plans of an engine (training step, evaluation) and their common arena, one preallocated block
// that holds all step memory. The first batch of new shapes causes a rehearsal: a dry run of the step on shapes only.
// Later steps with such batches allocate nothing.
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

// Returns all that a memory plan depends on in a batch: shapes and dtypes of its tensors, and whether they are on a
// GPU.
std::string shapes_of(const Batch& batch);
// The key of the memory plan for the step `name` and batches like `batch`.
inline std::string plan_key(const std::string& name, const Batch& batch) { return name + shapes_of(batch); }

// For an arena in a window. Throws InternalError on all ranks if a rank's offsets differ from rank 0's offsets. All
// ranks must call it.
void require_same_places(const MemoryPlan& plan, const Group& group);

class StepMemory {
 public:
  // Runs the step on batches of the meta device and returns its recorded allocations. Must have no side effects.
  using Rehearsal = std::function<MemoryPlan(const std::string& name, const Batch& shapes)>;

  // The arena comes from `source`, or from the device's allocator if `source` is null.
  explicit StepMemory(Device device, std::shared_ptr<memory::BlockSource> source = nullptr)
      : device_(device), source_(std::move(source)) {}

  // Returns the plan of the step `name` for batches like `batch`. Rehearses the step if the plan is new.
  std::shared_ptr<const MemoryPlan> prepare(const std::string& name, const Batch& batch, const Rehearsal& rehearse);
  // Drops a plan, so that the next such batch is rehearsed again.
  void forget(const std::string& key) { plans_.erase(key); }
  // Makes the arena large enough for the largest plan. The contents of a smaller arena are lost. Throws InternalError,
  // and then has no arena, if the memory is not available; call forget() for the plans that need it.
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
  // Identifies the arena. Its address does not, because a later arena may have the same one.
  Size arena_number() const { return arenas_; }

 private:
  Device device_;
  std::shared_ptr<memory::BlockSource> source_;
  Plans plans_;
  Size arenas_ = 0;  // made so far
  std::optional<memory::Arena> arena_;
};

}  // namespace lt::parallel
