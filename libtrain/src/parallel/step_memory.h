// StepMemory: the programs of an engine (training step, evaluation) and the arena in which they take turns. A program
// is rehearsed on shapes alone when a batch of new shapes comes; after that its steps allocate nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/arena.h"
#include "libtrain/batch.h"
#include "libtrain/group.h"

namespace lt {

// Shapes and dtypes of inputs and targets: what a program depends on of a batch.
std::string shapes_of(const Batch& batch);

// For an arena in a window: throws InternalError on all ranks where the places of one differ from those of rank 0.
void require_same_places(const MemoryProgram& program, const Group& group);

class StepMemory {
 public:
  // Runs the program once on batches of the meta device, writes down its allocations, and leaves everything as it was.
  using Rehearsal = std::function<MemoryProgram(const std::string& name, const Batch& shapes)>;

  // The arena comes from `source`, or from the device's allocator where that is null.
  explicit StepMemory(Device device, std::shared_ptr<BlockSource> source = nullptr)
      : device_(device), source_(std::move(source)) {}

  // Rehearses the program `name` for batches like `batch`, where it is a new one.
  std::shared_ptr<const MemoryProgram> prepare(const std::string& name, const Batch& batch, const Rehearsal& rehearse);
  // Makes room for the largest program so far. What lay in a smaller arena is gone.
  void reserve();

  // Runs `body`, the program `name` for batches like `batch`, in the arena.
  template <class F>
  void run(const std::string& name, const Batch& batch, const Rehearsal& rehearse, F&& body) {
    const auto program = prepare(name, batch, rehearse);
    reserve();
    arena_->run(program, std::forward<F>(body));
  }

  using Programs = std::map<std::string, std::shared_ptr<const MemoryProgram>>;  // by name and shapes of the batch
  const Programs& programs() const { return programs_; }
  Size arena_bytes() const { return arena_ ? arena_->bytes() : 0; }
  // Which arena it is: a later one may lie at the same address.
  Size arena_number() const { return arenas_; }

 private:
  Device device_;
  std::shared_ptr<BlockSource> source_;
  Programs programs_;
  Size largest_bytes_ = 0;  // of the programs
  Size arenas_ = 0;         // made so far
  std::optional<Arena> arena_;
};

}  // namespace lt
