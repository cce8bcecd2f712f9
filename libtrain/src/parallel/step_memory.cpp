// Keeps the plans and the arena, and compares offsets between ranks.
#include "parallel/step_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "comm/value_exchange.h"
#include "io/crc32c.h"
#include "libtrain/error.h"

namespace lt::parallel {
namespace {

Tensor shape_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const memory::UncountedMemoryScope uncounted;
  const MemoryScope owner(MemoryOwner::data);
  return Tensor::empty(tensor.shape(), tensor.dtype(), meta_for(tensor.device()));
}

}  // namespace

std::string shapes_of(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] :
       {std::pair{"inputs", &batch.inputs}, {"targets", &batch.targets}, {"document_starts", &batch.document_starts}}) {
    if (!tensor->defined()) continue;
    text += std::string(" ") + name + " " + to_string(tensor->shape()) + " " + std::string(dtype_name(tensor->dtype()));
    if (target_of(tensor->device()) == DeviceType::cuda) text += " on a GPU";
  }
  return text;
}

void require_same_places(const MemoryPlan& plan, const Group& group) {
  const std::vector<Size>& offsets = plan.packing.offsets;
  const auto all = comm::gather_values(group, io::crc32c(0, offsets.data(), offsets.size() * sizeof(Size)));
  const auto other = std::find_if(all.begin(), all.end(), [&](std::uint32_t crc) { return crc != all[0]; });
  if (other == all.end()) return;
  throw InternalError("memory", plan.name + ": expected the same memory plan on all ranks, rank " +
                                    std::to_string(other - all.begin()) +
                                    " has another than rank 0: do batches differ in shape?");
}

std::shared_ptr<const MemoryPlan> StepMemory::prepare(const std::string& name, const Batch& batch,
                                                      const Rehearsal& rehearse) {
  const std::string key = plan_key(name, batch);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  const memory::AllocationScope plain(nullptr, device_);
  const auto plan = std::make_shared<const MemoryPlan>(rehearse(name, batch.map(shape_of)));
  return plans_.emplace(key, plan).first->second;
}

void StepMemory::reserve() {
  Size largest_bytes = 0;
  for (const auto& [key, plan] : plans_) largest_bytes = std::max(largest_bytes, plan->packing.bytes);
  if (arena_ && arena_->bytes() >= largest_bytes) return;
  arena_.reset();  // freed before the larger one is made
  memory::trim(device_);
  arena_.emplace(largest_bytes, device_, source_);
  ++arenas_;
}

}  // namespace lt::parallel
