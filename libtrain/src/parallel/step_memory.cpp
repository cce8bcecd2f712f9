// The programs of an engine and their arena.
#include "parallel/step_memory.h"

#include <algorithm>

namespace lt {
namespace {

Tensor shape_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const UncountedMemoryScope uncounted;
  return Tensor::empty(tensor.shape(), tensor.dtype(), meta_for(tensor.device()));
}

std::string key_of(const std::string& name, const Batch& batch) {
  std::string key = name;
  for (const Tensor* tensor : {&batch.inputs, &batch.targets}) {
    if (!tensor->defined()) continue;
    key += " " + to_string(tensor->shape()) + " " + std::string(dtype_name(tensor->dtype()));
  }
  return key;
}

}  // namespace

std::shared_ptr<const MemoryProgram> StepMemory::prepare(const std::string& name, const Batch& batch,
                                                         const Rehearsal& rehearse) {
  const std::string key = key_of(name, batch);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  const AllocationScope plain(nullptr, device_);
  const Batch shapes{shape_of(batch.inputs), shape_of(batch.targets)};
  const auto program = std::make_shared<const MemoryProgram>(rehearse(name, shapes));
  largest_bytes_ = std::max(largest_bytes_, program->packing.bytes);
  return programs_.emplace(key, program).first->second;
}

void StepMemory::reserve() {
  if (arena_ && arena_->bytes() >= largest_bytes_) return;
  arena_.reset();  // before there is the larger one
  trim(device_);
  arena_.emplace(largest_bytes_, device_);
}

}  // namespace lt
