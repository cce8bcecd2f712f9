// The flat buffers of one unit: allocation by placement, gathers, reductions, update.
#include "parallel/sharded_unit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/buffer.h"
#include "core/fault.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "libtrain/autograd.h"
#include "libtrain/memory.h"
#include "libtrain/part_clock.h"
#include "optim/groups.h"
#include "tensor/dispatch.h"

namespace lt {
namespace {

// A flat buffer that belongs to `owner`, zero at first; from `source` where that is not null.
Tensor flat(Size elements, DType dtype, Device device, MemoryOwner owner,
            const std::shared_ptr<BlockSource>& source = nullptr) {
  const MemoryScope scope(owner);
  const AllocationScope from(source, device);
  return Tensor::zeros({elements}, dtype, device);
}

Tensor flat_uninitialised(Size elements, DType dtype, Device device, MemoryOwner owner) {
  const MemoryScope scope(owner);
  return Tensor::empty({elements}, dtype, device);
}

}  // namespace

ShardedUnit::ShardedUnit(UnitLayout layout, const Sharding& sharding, const OptimizerGroups& groups, std::uint64_t seed)
    : layout_(std::move(layout)),
      sharding_(sharding),
      master_dtype_(weight_dtype(groups, sharding.dtype)),
      shard_(layout_.padded() / sharding.gather.size()),
      shard_begin_(shard_ * sharding.gather.rank()),
      optimizer_(layout_, groups, updated_part(), master_dtype_, sharding.device, seed) {
  const Strategy& strategy = sharding_.strategy;
  const Device device = sharding_.device;
  const Size full = layout_.padded();
  if (has_masters()) master_ = flat(updated_part().size, master_dtype_, device, MemoryOwner::optimizer);

  if (is_sharded(strategy.gradients)) {
    gradient_part_ = flat(shard_, DType::f32, device, MemoryOwner::gradients);
  } else {
    gradient_ = flat(full, DType::f32, device, MemoryOwner::gradients);
    // Reduced in place, except where later micro-batches overwrite the buffer that the reduced sum would stand in.
    const bool needs_accumulator = sharding_.reduce_each_micro_batch && sharding_.accumulates;
    gradient_part_ = needs_accumulator ? flat(shard_, DType::f32, device, MemoryOwner::gradients) : part_of(gradient_);
  }

  for (const UnitLayout::Range& range : layout_.ranges()) {
    Tensor tensor = Tensor::unbound(range.parameter->shape(), sharding_.dtype, device, range.name);
    tensor.set_requires_grad();
    parameters_.push_back(std::move(tensor));
  }
}

void ShardedUnit::make_parameters() {
  const bool sharded = is_sharded(sharding_.strategy.parameters);
  compute_ = flat(sharded ? shard_ : layout_.padded(), sharding_.dtype, sharding_.device, MemoryOwner::parameters,
                  sharding_.parameter_source());
  if (!has_masters()) {
    const bool is_part = !sharded && is_sharded(sharding_.strategy.optimizer);
    master_ = is_part ? part_of(compute_) : compute_;
  }
  if (sharded) return;
  full_ = compute_;
  gathered_ = true;
  bind_parameters(full_);
}

void ShardedUnit::bind_model() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) layout_.ranges()[i].parameter->bind(parameters_[i]);
}

void ShardedUnit::bind_parameters(const Tensor& full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].rebind(full, layout_.ranges()[i].begin);
}

void ShardedUnit::make_room() {
  if (full_.defined()) return;
  full_ = flat_uninitialised(layout_.padded(), sharding_.dtype, sharding_.device, MemoryOwner::parameters);
  bind_parameters(full_);
}

void ShardedUnit::start_gather() {
  start_late_gather();
  if (std::exchange(gathered_, true)) return;
  make_room();
  gather_ = sharding_.gather.all_gather(layout_.name() + " parameters", full_, compute_);
}

void ShardedUnit::finish_gather() {
  if (!gather_.pending()) return;
  const PartScope part(Part::gather_exposed);
  fault_point("collective");
  gather_.wait();
}

void ShardedUnit::release() {
  if (!is_sharded(sharding_.strategy.parameters)) return;
  finish_gather();
  for (Tensor& parameter : parameters_) parameter.unbind();
  full_ = Tensor();
  gathered_ = false;
}

void ShardedUnit::bind_gradients(bool first_micro_batch) {
  if (gradients_bound_) return;  // for a unit that borrows this one
  gradients_bound_ = true;
  bool keep = !first_micro_batch && !sharding_.reduce_each_micro_batch;
  if (is_sharded(sharding_.strategy.gradients)) {
    gradient_ = flat_uninitialised(layout_.padded(), DType::f32, sharding_.device, MemoryOwner::gradients);
    layout_.for_each_gap([&](Size begin, Size end) { fill_zero(gradient_.narrow(0, begin, end - begin)); });
    keep = false;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const UnitLayout::Range& range = layout_.ranges()[i];
    GradientSlot& slot = *parameters_[i].gradient_slot();
    slot.value = gradient_.narrow(0, range.begin, range.elements).view(slot.shape);
    slot.written = slot.written && keep;
  }
}

void ShardedUnit::complete_gradients() {
  for (const Tensor& parameter : parameters_) {
    const GradientSlot& slot = *parameter.gradient_slot();
    if (!slot.written) fill_zero(slot.value);
  }
  gradients_bound_ = false;
  if (fault_makes_nan("backward")) fill(gradient_, std::numeric_limits<double>::quiet_NaN());
}

void ShardedUnit::start_reduce(bool first_reduction) {
  reduction_ = sharding_.reduce.reduce_scatter(layout_.name() + " gradients", gradient_part_, gradient_,
                                               sharding_.reduce_dtype, !first_reduction);
}

void ShardedUnit::finish_reduce() {
  if (reduction_.pending()) {
    const PartScope part(Part::reduce_exposed);
    fault_point("collective");
    reduction_.wait();
  }
  if (is_sharded(sharding_.strategy.gradients)) {
    for (const Tensor& parameter : parameters_) parameter.gradient_slot()->value = Tensor();
    gradient_ = Tensor();
  }
}

void ShardedUnit::start_gradient_exchange() {
  if (sharding_.replicas.size() > 1) {
    const PartScope part(Part::reduce_exposed);
    sharding_.replicas.all_reduce(layout_.name() + " gradients across replicas", gradient_part_,
                                  sharding_.reduce_dtype);
  }
  if (!is_sharded(sharding_.strategy.optimizer)) {
    exchange_ = sharding_.reduce.all_gather(layout_.name() + " gradients", gradient_, gradient_part_);
  }
}

void ShardedUnit::finish_gradient_exchange() {
  if (!exchange_.pending()) return;
  const PartScope part(Part::reduce_exposed);
  exchange_.wait();
}

void ShardedUnit::sum_squares(double* partial) const {
  dispatch(sharding_.device,
           [&](auto stream) { kernels::sum_squares(stream, DType::f32, partial, gradient_part_.data(), shard_); });
}

UnitPart ShardedUnit::updated_part() const {
  return is_sharded(sharding_.strategy.optimizer) ? UnitPart{shard_begin_, shard_} : UnitPart{0, layout_.padded()};
}

// The copy is written where the next gather or the next forward pass reads it.
void ShardedUnit::update(const StepNumbers* numbers) {
  const bool is_part = compute_.elements() != master_.elements();
  const Tensor copy = !has_masters() ? Tensor() : is_part ? part_of(compute_) : compute_;
  optimizer_.update(master_, is_sharded(sharding_.strategy.optimizer) ? gradient_part_ : gradient_, copy, numbers);
}

void ShardedUnit::start_update_gather() {
  const Strategy& strategy = sharding_.strategy;
  if (is_sharded(strategy.parameters) || !is_sharded(strategy.optimizer)) return;
  update_gather_is_late_ = true;
  if (!sharding_.gathers_update_late) start_late_gather();
}

void ShardedUnit::start_late_gather() {
  if (!std::exchange(update_gather_is_late_, false)) return;
  gather_ = sharding_.gather.all_gather(layout_.name() + " parameters", compute_, part_of(compute_));
}

void ShardedUnit::initialise(std::uint64_t seed) {
  if (sharding_.device.is_meta()) return;
  ShardMap map;
  add_to(map);
  for (const StateRange& range : map.needed) {
    if (range.kind != kMaster) continue;
    const auto found = std::find_if(layout_.ranges().begin(), layout_.ranges().end(),
                                    [&](const UnitLayout::Range& entry) { return entry.name == range.parameter; });
    nn::initial_values(range.values, range.parameter, found->parameter->init(), seed, range.begin);
  }
  refresh_copies();
}

void ShardedUnit::refresh_copies() {
  if (!has_masters()) return;
  copy(compute_.elements() == master_.elements() ? compute_ : part_of(compute_), master_);
}

// Every rank needs what its buffers hold; it owns the part of it that no other rank writes: its shard, and of that its
// part among the replicas.
void ShardedUnit::add_to(ShardMap& map) const {
  const UnitPart held = updated_part();
  const Size share = shard_ / sharding_.replicas.size();
  const Size own_begin = shard_begin_ + share * sharding_.replicas.rank(), own_end = own_begin + share;

  const auto add = [&](std::vector<StateRange>& list, const UnitLayout::Range& range, Size begin, Size end) {
    begin = std::max(begin, range.begin), end = std::min(end, range.end());
    if (begin >= end) return;
    const auto add_state = [&](const std::string& kind, const Tensor& values) {
      list.push_back({range.name, kind, begin - range.begin, end - range.begin, values});
    };
    add_state(kMaster, master_.narrow(0, begin - held.begin, end - begin));
    optimizer_.for_each_state(begin, end, add_state);
  };
  for (const UnitLayout::Range& range : layout_.ranges()) {
    map.parameters.push_back({range.name, range.parameter->shape()});
    add(map.owned, range, own_begin, own_end);
    add(map.needed, range, held.begin, held.end());
  }
}

}  // namespace lt
