// Allocates the buffers of one unit, and runs its reductions and its update.
#include "parallel/sharded_unit.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "device/fault.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/tensor/autograd.h"
#include "memory/allocation.h"
#include "optim/groups.h"
#include "parallel/exposed_wait.h"
#include "parallel/flat_buffer.h"
#include "profile/activity_clock.h"
#include "tensor/dispatch.h"

namespace lt::parallel {
namespace {

UnitLayout layout_of(const std::string& name, const std::vector<nn::NamedParameter>& parameters, int parts,
                     const OptimizerGroups& groups, bool frozen) {
  std::vector<nn::NamedParameter> chosen;
  for (const nn::NamedParameter& entry : parameters) {
    if (optim::is_frozen(groups, entry.name) == frozen) chosen.push_back(entry);
  }
  return {frozen ? name + " frozen" : name, chosen, parts};
}

}  // namespace

ShardedUnit::ShardedUnit(const std::string& name, const std::vector<nn::NamedParameter>& parameters,
                         const Sharding& sharding, const OptimizerGroups& groups, optim::LeastLoaded& owners,
                         std::uint64_t seed, bool gathers_late)
    : sharding_(sharding),
      master_dtype_(optim::weight_dtype(groups, sharding.dtype)),
      trained_(layout_of(name, parameters, sharding.parts(), groups, false), sharding, true, gathers_late),
      frozen_(layout_of(name, parameters, sharding.parts(), groups, true), sharding, false),
      optimizer_(trained_.layout(), groups, updated_part(), master_dtype_, sharding.device, seed),
      matrices_(trained_.layout(), groups, sharding, updated_part(), owners) {
  close_gradients();
  if (!is_trained()) return;
  const Device device = sharding_.device;
  if (has_masters()) master_ = flat_zeros(updated_part().size, master_dtype_, device, MemoryOwner::optimizer);
  // Reduced in place, unless later micro-batches would overwrite the buffer that holds the reduced sum.
  const bool needs_accumulator = sharding_.reduce_each_micro_batch && sharding_.accum > 1;
  if (is_sharded(sharding_.strategy.gradients) || needs_accumulator) {
    gradient_part_ = flat_zeros(trained_.shard().size, DType::f32, device, MemoryOwner::gradients);
  }
  if (!sharding_.elastic) return;
  // The sums that replicas add arrive in gradient_part_.
  const bool are_of_replicas = sharding_.replicas_add_each_micro_batch();
  sums_ = PartialSums(sharding_.accum, are_of_replicas ? own_part(trained_).size : trained_.shard().size, device,
                      !are_of_replicas);
}

// The slots may outlive the unit and its names.
ShardedUnit::~ShardedUnit() {
  for (const Tensor& parameter : trained_.tensors()) parameter.gradient_slot()->closed_parameter = nullptr;
}

Size ShardedUnit::bytes_in_place() const {
  if (!is_trained() || is_sharded(sharding_.strategy.parameters)) return 0;
  const DType dtype = sharding_.gathers_parameters() ? sharding_.dtype : DType::f32;
  return memory::occupied_bytes(trained_.layout().padded() * dtype_bytes(dtype));
}

void ShardedUnit::make_shared() {
  trained_.make();
  frozen_.make();
  if (!is_trained()) return;
  if (!has_masters()) master_ = trained_.values(updated_part());
  if (!is_sharded(sharding_.strategy.gradients)) {
    gradient_ = flat_zeros(trained_.layout().padded(), DType::f32, sharding_.device, MemoryOwner::gradients,
                           sharding_.gradient_source());
    if (!gradient_part_.defined()) gradient_part_ = shard_of(gradient_);
  }
  const UnitPart own = own_part(trained_);
  sums_.end_in(sharding_.replicas_add_each_micro_batch()
                   ? gradient_part_.narrow(0, own.begin - trained_.shard().begin, own.size)
                   : gradient_part_);
}

void ShardedUnit::bind_model() {
  trained_.bind_model();
  frozen_.bind_model();
}

void ShardedUnit::begin_gathers(bool in_e4m3) {
  trained_.begin_gathers(in_e4m3);
  frozen_.begin_gathers(in_e4m3);
}

void ShardedUnit::end_gathers() {
  trained_.end_gathers();
  frozen_.end_gathers();
}

void ShardedUnit::allocate() {
  trained_.allocate();
  frozen_.allocate();
}

void ShardedUnit::prepare_gather() {
  trained_.prepare_gather();
  frozen_.prepare_gather();
}

void ShardedUnit::start_gather() {
  trained_.start_gather();
  frozen_.start_gather();
}

void ShardedUnit::finish_gather() {
  trained_.finish_gather();
  frozen_.finish_gather();
}

void ShardedUnit::release() {
  trained_.release();
  frozen_.release();
}

void ShardedUnit::abandon() {
  trained_.abandon();
  frozen_.abandon();
}

void ShardedUnit::bind_gradients(bool first_micro_batch) {
  if (gradients_bound_) return;  // already bound for a unit that borrows this one
  gradients_bound_ = true;
  bool keep = !first_micro_batch && !sharding_.reduce_each_micro_batch;
  if (is_sharded(sharding_.strategy.gradients)) {
    gradient_ = flat_uninitialised(trained_.layout().padded(), DType::f32, sharding_.device, MemoryOwner::gradients);
    trained_.layout().for_each_gap([&](Size begin, Size end) { fill_zero(gradient_.narrow(0, begin, end - begin)); });
    keep = false;
  }
  for (std::size_t i = 0; i < trained_.tensors().size(); ++i) {
    const UnitLayout::Range& range = trained_.layout().ranges()[i];
    GradientSlot& slot = *trained_.tensors()[i].gradient_slot();
    slot.value = gradient_.narrow(0, range.begin, range.elements).view(slot.shape);
    slot.written = slot.written && keep;
    slot.closed_parameter = nullptr;
  }
}

// What arrives before bind_gradients() or after complete_gradients() would be lost.
void ShardedUnit::close_gradients() {
  for (std::size_t i = 0; i < trained_.tensors().size(); ++i) {
    trained_.tensors()[i].gradient_slot()->closed_parameter = &trained_.layout().ranges()[i].name;
  }
}

void ShardedUnit::complete_gradients() {
  for (const Tensor& parameter : trained_.tensors()) {
    const GradientSlot& slot = *parameter.gradient_slot();
    if (!slot.written) fill_zero(slot.value);
  }
  close_gradients();
  gradients_bound_ = false;
  if (!device::fault_makes_nan("backward")) return;
  // Not the gaps, which later steps do not write.
  for (const Tensor& parameter : trained_.tensors()) {
    fill(parameter.gradient_slot()->value, std::numeric_limits<double>::quiet_NaN());
  }
}

void ShardedUnit::start_reduce(Size micro_step, bool is_last) {
  PartialSums::Place place = sums_.place_of(micro_step);
  if (sharding_.replicas_add_each_micro_batch()) {
    finish_replica_sum();  // of the micro-step before, which reads gradient_part_
    replica_place_ = std::exchange(place, {{}, gradient_part_});
  }
  reduction_ = sharding_.reduce.reduce_scatter(
      trained_.layout().name() + " gradients", place.sum, gradient_, sharding_.reduce_dtype, place.addends,
      is_last && reduction_ends_on_this_group() ? sum_of_squares() : SumOfSquares());
}

void ShardedUnit::finish_reduce() {
  wait_exposed(reduction_, Activity::reduce_exposed);
  if (is_sharded(sharding_.strategy.gradients)) {
    for (const Tensor& parameter : trained_.tensors()) parameter.gradient_slot()->value = Tensor();
    gradient_ = Tensor();
  }
  if (!sharding_.replicas_add_each_micro_batch()) return;
  replica_sum_ =
      sharding_.replicas.reduce_scatter(trained_.layout().name() + " gradients across replicas", replica_place_.sum,
                                        gradient_part_, sharding_.replica_dtype, replica_place_.addends);
}

void ShardedUnit::finish_replica_sum() { wait_exposed(replica_sum_, Activity::reduce_exposed); }

void ShardedUnit::start_gradient_exchange() {
  if (sharding_.replicas.size() > 1) {
    const std::string name = trained_.layout().name() + " gradients across replicas";
    finish_replica_sum();
    const profile::ActivityScope activity(Activity::reduce_exposed);
    if (sharding_.replicas_add_each_micro_batch()) {
      sharding_.replicas.all_gather(name, gradient_part_, sums_.sum()).wait();
    } else {
      sharding_.replicas.all_reduce(name, gradient_part_, sharding_.replica_dtype);
    }
  }
  if (!is_sharded(sharding_.strategy.optimizer)) {
    exchange_ = sharding_.reduce.all_gather(trained_.layout().name() + " gradients", gradient_, gradient_part_);
  }
}

void ShardedUnit::finish_gradient_exchange() { wait_exposed(exchange_, Activity::reduce_exposed); }

SumOfSquares ShardedUnit::sum_of_squares() const {
  static_assert(kMostElasticRanks == kernels::kMostPieces);
  return {squares_, sharding_.elastic ? trained_.layout().padded() / kMostElasticRanks : 0};
}

void ShardedUnit::sum_squares() const {
  if (reduction_ends_on_this_group()) return;
  const SumOfSquares squares = sum_of_squares();
  tensor::dispatch(sharding_.device, [&](auto stream) {
    kernels::sum_squares(stream, DType::f32, squares.sum.data<double>(), gradient_part_.data(),
                         gradient_part_.elements(), nullptr, squares.piece);
  });
}

UnitPart ShardedUnit::updated_part() const {
  return is_sharded(sharding_.strategy.optimizer) ? trained_.shard() : UnitPart{0, trained_.layout().padded()};
}

const Tensor& ShardedUnit::updated_gradient() const {
  return is_sharded(sharding_.strategy.optimizer) ? gradient_part_ : gradient_;
}

// Writes the copy where the next gather or the next forward pass reads it.
void ShardedUnit::begin_update(const StepNumbers* numbers) {
  if (is_trained()) optimizer_.update(master_, updated_gradient(), updated_copy(), numbers);
  if (!matrices_.exist()) return start_update_gather();
  optimizer_.begin_matrices(updated_gradient(), matrices_.make_directions(), numbers);
  matrices_.send();
}

void ShardedUnit::transform_matrices(const TransformLanes& lanes) {
  if (matrices_.exist()) matrices_.transform(lanes);
}

void ShardedUnit::return_matrices() {
  if (matrices_.exist()) matrices_.send_back();
}

void ShardedUnit::end_update(const StepNumbers* numbers) {
  if (!matrices_.exist()) return;
  optimizer_.end_matrices(master_, matrices_.finish(), updated_copy(), numbers);
  start_update_gather();
}

void ShardedUnit::initialise(std::uint64_t seed) {
  if (sharding_.device.is_meta()) return;
  ShardMap map;
  add_to(map);
  const auto init_of = [&](const std::string& name) {
    for (const GatheredParameters* parameters : {&trained_, &frozen_}) {
      for (const UnitLayout::Range& range : parameters->layout().ranges()) {
        if (range.name == name) return range.parameter->init();
      }
    }
    throw InternalError("engine", "no parameter " + name);
  };
  for (const StateRange& range : map.needed) {
    if (range.kind == kMaster)
      nn::initial_values(range.values, range.parameter, init_of(range.parameter), seed, range.begin);
  }
  refresh_copies();
}

void ShardedUnit::refresh_copies() {
  if (is_trained() && has_masters()) copy(trained_.values(updated_part()), master_);
}

UnitPart ShardedUnit::own_part(const GatheredParameters& parameters) const {
  const Size share = parameters.shard().size / sharding_.replicas.size();
  return {parameters.shard().begin + share * sharding_.replicas.rank(), share};
}

// Every rank needs all that its buffers hold, and owns its own part.
void ShardedUnit::add_to(ShardMap& map) const {
  const auto add = [&](const GatheredParameters& parameters, UnitPart held, auto&& add_states) {
    const UnitPart own = own_part(parameters);
    for (const UnitLayout::Range& range : parameters.layout().ranges()) {
      map.parameters.push_back({range.name, range.parameter->shape()});
      for (const auto& [list, part] : {std::pair{&map.owned, own}, {&map.needed, held}}) {
        const UnitPart both = part.overlap(range.begin, range.end());
        if (both.size == 0) continue;
        add_states(both.begin, both.end(), [&, list = list](const std::string& kind, const Tensor& values) {
          list->push_back({range.name, kind, both.begin - range.begin, both.end() - range.begin, values});
        });
      }
    }
  };
  const UnitPart updated = updated_part();
  add(trained_, updated, [&](Size begin, Size end, const auto& add_state) {
    add_state(kMaster, master_.narrow(0, begin - updated.begin, end - begin));
    optimizer_.for_each_state(begin, end, add_state);
  });
  add(frozen_, frozen_.held(), [&](Size begin, Size end, const auto& add_state) {
    add_state(kMaster, frozen_.values({begin, end - begin}));
  });
}

void ShardedUnit::add_gradients_to(std::vector<StateRange>& ranges) const {
  const UnitPart own = own_part(trained_);
  for (const UnitLayout::Range& range : trained_.layout().ranges()) {
    const UnitPart both = own.overlap(range.begin, range.end());
    if (both.size == 0) continue;
    ranges.push_back({range.name, "gradient", both.begin - range.begin, both.end() - range.begin,
                      gradient_part_.narrow(0, both.begin - trained_.shard().begin, both.size)});
  }
}

}  // namespace lt::parallel
