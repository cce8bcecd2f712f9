// The programs of an engine and their arena.
#include "parallel/step_memory.h"

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
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    const AllocationScope plain(nullptr, device_);
    found = programs_.emplace(key, rehearse(name, {shape_of(batch.inputs), shape_of(batch.targets)})).first;
  }
  if (!arena_ || arena_->bytes() < found->second.packing.bytes) {
    arena_.reset();  // before there is the larger one
    arena_.emplace(found->second.packing.bytes, device_);
  }
  return found->second;
}

}  // namespace lt
