// Assigns tensors to owners, and exchanges directions and changes with them.
#include "parallel/unit_matrices.h"

#include <algorithm>
#include <utility>

#include "device/fault.h"
#include "libtrain/memory/memory.h"
#include "optim/groups.h"
#include "parallel/exposed_wait.h"
#include "parallel/flat_buffer.h"
#include "parallel/group_member.h"

namespace lt::parallel {
UnitMatrices::UnitMatrices(const UnitLayout& layout, const OptimizerGroups& groups, const Sharding& sharding,
                           UnitPart part, optim::LeastLoaded& owners)
    : name_(layout.name()),
      sharding_(sharding),
      part_(part),
      padded_(layout.padded()),
      dtype_(sharding.dtype == DType::f32 ? DType::f32 : DType::bf16) {
  std::vector<double> flops;
  for (const UnitLayout::Range& range : layout.ranges()) {
    const Optimizer& optimizer = groups.groups[optim::group_of(groups, member_of(range))].optimizer;
    if (!optimizer.matrices || range.elements == 0) continue;
    MatrixStack stack{range.parameter->matrix_rows(), range.parameter->shape()[1]};
    flops.push_back(optimizer.matrices->flops(stack));
    elements_ += range.elements;
    tensors_.push_back({range.begin, range.end(), std::move(stack), &*optimizer.matrices, sharding.reduce.rank(), 0});
  }
  if (travel()) {
    const std::vector<int> owner = owners.assign(flops);
    std::vector<Size> elements(static_cast<std::size_t>(sharding.reduce.size()));  // owned by each rank
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      Matrices& tensor = tensors_[i];
      Size& place = elements[static_cast<std::size_t>(owner[i])];
      tensor.owner = owner[i], tensor.place = place;
      place += UnitLayout::aligned(tensor.end - tensor.begin);
    }
    own_elements_ = *std::max_element(elements.begin(), elements.end());
  }
  owned_ = owned_by(sharding.reduce.rank());
  for (int rank = 0; rank < sharding.reduce.size(); ++rank) {
    for (const Owned& owned : owned_by(rank)) {
      const auto bytes = owned.update->workspace_bytes(owned.stacks, dtype_);
      for (std::size_t lane = 0; lane < bytes.size(); ++lane) {
        workspace_bytes_[lane] = std::max(workspace_bytes_[lane], bytes[lane]);
      }
    }
  }
}

std::vector<UnitMatrices::Owned> UnitMatrices::owned_by(int rank) const {
  std::vector<Owned> all;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Matrices& tensor = tensors_[i];
    if (tensor.owner != rank) continue;
    auto owned = std::find_if(all.begin(), all.end(), [&](const Owned& o) { return o.update == tensor.update; });
    if (owned == all.end()) owned = all.insert(all.end(), {tensor.update, {}, {}});
    owned->tensors.push_back(i);
    owned->stacks.push_back(tensor.stack);
  }
  return all;
}

const Tensor& UnitMatrices::make_directions() {
  return directions_ = flat_uninitialised(part_.size, dtype_, sharding_.device, MemoryOwner::optimizer);
}

std::vector<Message> UnitMatrices::of_parts() const {
  std::vector<Message> messages;
  for (const Matrices& tensor : tensors_) {
    const UnitPart own = part_.overlap(tensor.begin, tensor.end);
    if (own.size > 0) messages.push_back({tensor.owner, directions_.narrow(0, own.begin - part_.begin, own.size)});
  }
  return messages;
}

std::vector<Message> UnitMatrices::of_owners() const {
  std::vector<Message> messages;
  for (const Matrices& tensor : tensors_) {
    if (tensor.owner != sharding_.reduce.rank()) continue;
    for (int rank = 0; rank < sharding_.reduce.size(); ++rank) {
      const UnitPart theirs = UnitPart{rank * part_.size, part_.size}.overlap(tensor.begin, tensor.end);
      if (theirs.size == 0) continue;
      messages.push_back({rank, own_.narrow(0, tensor.place + theirs.begin - tensor.begin, theirs.size)});
    }
  }
  return messages;
}

void UnitMatrices::send() {
  if (!travel()) return;
  own_ = flat_uninitialised(own_elements_, dtype_, sharding_.device, MemoryOwner::optimizer);
  exchange_ = sharding_.reduce.all_to_all(name_ + " directions", sharding_.device, of_parts(), of_owners(),
                                          elements_ * dtype_bytes(dtype_));
}

void UnitMatrices::transform(const TransformLanes& lanes) {
  wait_for_exchange();
  Event ready;
  ready.record(Stream::compute(sharding_.device));
  for (const TransformLane& lane : lanes) {
    lane.stream.wait(ready);
    device::fault_point("transform", lane.stream);
  }
  for (const Owned& owned : owned_) {
    std::vector<Tensor> directions;
    for (const std::size_t i : owned.tensors) {
      const Matrices& tensor = tensors_[i];
      const Size elements = tensor.end - tensor.begin, columns = tensor.stack.columns;
      const Tensor held =
          travel() ? own_.narrow(0, tensor.place, elements) : directions_.narrow(0, tensor.begin, elements);
      directions.push_back(held.view({elements / columns, columns}));
    }
    owned.update->transform(directions, owned.stacks, lanes);
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) transformed_[i].record(lanes[i].stream);
}

void UnitMatrices::send_back() {
  for (const Event& event : transformed_) Stream::compute(sharding_.device).wait(event);
  if (!travel()) return;
  exchange_ = sharding_.reduce.all_to_all(name_ + " changes", sharding_.device, of_owners(), of_parts(),
                                          elements_ * dtype_bytes(dtype_));
}

Tensor UnitMatrices::finish() {
  wait_for_exchange();
  own_ = Tensor();
  return std::exchange(directions_, Tensor());
}

void UnitMatrices::wait_for_exchange() { wait_exposed(exchange_, Activity::reduce_exposed); }

}  // namespace lt::parallel
