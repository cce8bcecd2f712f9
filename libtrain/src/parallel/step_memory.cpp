// The programs of an engine and their arena.
#include "parallel/step_memory.h"

#include <algorithm>

namespace lt {
namespace {

Tensor shape_of(const Tensor& tensor) {
  const MemoryScope owner(MemoryOwner::data);
  return Tensor::empty(tensor.shape(), tensor.dtype(), kMeta);
}

std::string key_of(const std::string& name, const Batch& batch) {
  std::string key = name;
  for (const Tensor* tensor : {&batch.inputs, &batch.targets}) {
    key += " " + to_string(tensor->shape()) + " " + std::string(dtype_name(tensor->dtype()));
  }
  return key;
}

}  // namespace

const MemoryProgram& StepMemory::prepare(const std::string& name, const Batch& batch, const Rehearsal& rehearse) {
  const std::string key = key_of(name, batch);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  const AllocationScope plain(nullptr, device_);
  const MemoryProgram& made =
      programs_.emplace(key, rehearse(name, {shape_of(batch.inputs), shape_of(batch.targets)})).first->second;
  largest_bytes_ = std::max(largest_bytes_, made.packing.bytes);
  return made;
}

void StepMemory::reserve() {
  if (arena_ && arena_->bytes() >= largest_bytes_) return;
  arena_.reset();  // before there is the larger one
  arena_.emplace(largest_bytes_, device_);
}

}  // namespace lt
