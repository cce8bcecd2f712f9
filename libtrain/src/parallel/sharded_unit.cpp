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
#include "libtrain/work_count.h"
#include "optim/row.h"
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

ShardedUnit::ShardedUnit(UnitLayout layout, const Sharding& sharding, const Optimizer& optimizer, std::uint64_t seed)
    : layout_(std::move(layout)),
      sharding_(sharding),
      optimizer_(optimizer),
      seed_(seed),
      master_dtype_(weight_dtype(optimizer, sharding.dtype)),
      shard_(layout_.padded() / sharding.gather.size()),
      shard_begin_(shard_ * sharding.gather.rank()) {
  const Strategy& strategy = sharding_.strategy;
  const Device device = sharding_.device;
  const Size full = layout_.padded();
  const Size master_size = is_sharded(strategy.optimizer) ? shard_ : full;

  if (has_masters()) master_ = flat(master_size, master_dtype_, device, MemoryOwner::optimizer);
  for (const StateKind& state : optimizer.states) {
    states_.push_back(flat(master_size, state.dtype, device, MemoryOwner::optimizer));
  }
  if (rounds_stochastically(optimizer))
    rounded_ = rounded_ranges(is_sharded(strategy.optimizer) ? shard_begin_ : 0, master_size);

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

void ShardedUnit::update(const StepNumbers* numbers) {
  // Master and states are read and written, the gradient read for the norm and the update, the copy written.
  Size element = 2 * dtype_bytes(master_dtype_) + 2 * dtype_bytes(DType::f32);
  for (const Tensor& state : states_) element += 2 * dtype_bytes(state.dtype());
  if (has_masters()) element += dtype_bytes(sharding_.dtype);
  count_traffic(master_.elements() * element);
  if (rounded_.empty()) update_range(0, master_.elements(), nullptr, numbers);
  for (const RoundedRange& range : rounded_) update_range(range.begin, range.end, &range.places, numbers);
}

void ShardedUnit::update_range(Size begin, Size end, const RoundingPlaces* rounding, const StepNumbers* numbers) {
  const bool sharded = is_sharded(sharding_.strategy.optimizer);
  const Size size = end - begin;
  const auto part = [&](const Tensor& held) { return held.narrow(0, begin, size); };
  std::vector<Tensor> states;
  for (const Tensor& state : states_) states.push_back(part(state));
  UpdateRange range{part(master_), states, part(sharded ? gradient_part_ : gradient_), {}, 0, numbers, rounding};
  range.decayed = std::clamp<Size>(layout_.decayed() - (sharded ? shard_begin_ : 0) - begin, 0, size);
  // The copy is written where the next gather or the next forward pass reads it.
  if (has_masters()) range.copy = part(compute_.elements() != master_.elements() ? part_of(compute_) : compute_);
  optimizer_.update(range);
}

// Ranges of at most RoundingPlaces::kMost parameters, together [begin, begin + size) of the unit.
std::vector<ShardedUnit::RoundedRange> ShardedUnit::rounded_ranges(Size begin, Size size) const {
  std::vector<RoundedRange> ranges;
  for (const UnitLayout::Range& range : layout_.ranges()) {
    const Size from = std::max(range.begin, begin), to = std::min(range.end(), begin + size);
    if (from >= to) continue;
    if (ranges.empty() || ranges.back().places.count == RoundingPlaces::kMost) {
      if (!ranges.empty()) ranges.back().end = from - begin;
      ranges.push_back({ranges.empty() ? 0 : from - begin, size, {}});
    }
    RoundingPlaces& places = ranges.back().places;
    places.places[places.count++] = {from - begin - ranges.back().begin, from - range.begin,
                                     rounding_key(seed_, range.name)};
  }
  if (ranges.empty() && size > 0) ranges.push_back({0, size, {.count = 1}});  // padding alone
  return ranges;
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
  const bool sharded = is_sharded(sharding_.strategy.optimizer);
  const Size held_begin = sharded ? shard_begin_ : 0, held_end = held_begin + master_.elements();
  const Size share = shard_ / sharding_.replicas.size();
  const Size own_begin = shard_begin_ + share * sharding_.replicas.rank(), own_end = own_begin + share;

  const auto add = [&](std::vector<StateRange>& list, const UnitLayout::Range& range, Size begin, Size end) {
    begin = std::max(begin, range.begin), end = std::min(end, range.end());
    if (begin >= end) return;
    const auto add_state = [&](const std::string& kind, const Tensor& buffer) {
      list.push_back({range.name, kind, begin - range.begin, end - range.begin,
                      buffer.narrow(0, begin - held_begin, end - begin)});
    };
    add_state(kMaster, master_);
    for (std::size_t i = 0; i < states_.size(); ++i) add_state(optimizer_.states[i].name, states_[i]);
  };
  for (const UnitLayout::Range& range : layout_.ranges()) {
    map.parameters.push_back({range.name, range.parameter->shape()});
    add(map.owned, range, own_begin, own_end);
    add(map.needed, range, held_begin, held_end);
  }
}

}  // namespace lt
