// Starts and ends the gathers and reductions of units.
#include "parallel/unit_schedule.h"

#include <algorithm>

#include "device/progress.h"
#include "libtrain/error.h"
#include "profile/activity_clock.h"

namespace lt::parallel {

UnitSchedule::UnitSchedule(std::deque<ShardedUnit>& units, const std::vector<nn::UnitInfo>& infos,
                           const ParallelOptions& options, const Sharding& sharding)
    : units_(units),
      infos_(infos),
      options_(options),
      sharding_(sharding),
      borrowed_(infos.size()),
      block_index_(infos.size(), -1) {
  int blocks = 0;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].is_block) block_index_[i] = blocks++;
    for (const int owner : infos[i].borrows) borrowed_[static_cast<std::size_t>(owner)] = true;
  }
  while (first_trained_ < last() && !at(first_trained_).is_trained()) ++first_trained_;
}

void UnitSchedule::begin_evaluation() { training_ = false, next_forward_ = 0; }

void UnitSchedule::begin_micro_batch(Size micro_step, bool is_last) {
  training_ = true, next_forward_ = 0, runs_last_unit_ = false;
  micro_step_ = micro_step, last_micro_batch_ = is_last;
}

void UnitSchedule::end_pass() {
  if (next_forward_ != last() + 1) {
    throw UsageError("engine", "units: expected a pass to run all " + std::to_string(units_.size()) + ", it ran " +
                                   std::to_string(next_forward_) + " and not " +
                                   infos_[static_cast<std::size_t>(next_forward_)].name);
  }
}

void UnitSchedule::expect_forward(int unit) {
  if (unit != next_forward_) {
    const std::string expected = next_forward_ <= last()
                                     ? "unit " + infos_[static_cast<std::size_t>(next_forward_)].name
                                     : "the end of the pass";
    throw UsageError(
        "engine",
        "units: expected " + expected + ", got " + infos_[static_cast<std::size_t>(unit)].name +
            ": in a pass the units of a model run once each, in the order of units()",
        "loss() runs each unit once, in the order of add_unit() and add_block(); outside of a step, the model's "
        "functions run inside with_parameters()");
  }
  ++next_forward_;
}

void UnitSchedule::before_forward(int unit) {
  expect_forward(unit);
  device::count_progress(sharding_.device);  // a pass over one unit of a large model takes a processor many seconds
  at(unit).start_gather();
  if (unit < last()) at(unit + 1).start_gather();
  if (unit + 1 < last()) at(unit + 2).prepare_gather();
  at(unit).finish_gather();
  // The head computes its gradients while its logits exist, so it needs memory for them in the forward pass.
  runs_last_unit_ = training_ && unit == last();
  if (runs_last_unit_) bind_gradients(unit);
}

void UnitSchedule::after_forward(int unit) {
  runs_last_unit_ = false;
  if (training_) {
    const bool frees = sharding_.strategy.reshard_after_forward && unit != last();
    if (frees && !borrowed_[static_cast<std::size_t>(unit)]) at(unit).release();
    return;
  }
  if (!borrowed_[static_cast<std::size_t>(unit)]) at(unit).release();
  if (unit == last()) {
    for (ShardedUnit& entry : units_) entry.release();
  }
}

void UnitSchedule::bind_gradients(int unit) {
  const auto bind = [&](int index) {
    if (!at(index).is_trained()) return;
    // The buffer of the previous micro-batch may still be in flight.
    while (at(index).reducing()) finish_reductions_but(reducing_.size() - 1);
    at(index).bind_gradients(micro_step_ == 0);
  };
  bind(unit);
  for (const int owner : infos_[static_cast<std::size_t>(unit)].borrows) bind(owner);
}

void UnitSchedule::before_backward(int unit) {
  device::count_progress(sharding_.device);
  at(unit).start_gather();
  if (unit > first_trained_) at(unit - 1).start_gather();
  at(unit).finish_gather();
  finish_reductions_but(1);
  bind_gradients(unit);
}

void UnitSchedule::after_backward(int unit) {
  at(unit).release();
  if (unit == first_trained_) {  // only borrowed units before it are still gathered
    for (int before = 0; before < unit; ++before) at(before).release();
  }
  if (!at(unit).is_trained()) return;
  at(unit).complete_gradients();
  if (!last_micro_batch_ && !sharding_.reduce_each_micro_batch) return;
  at(unit).start_reduce(sharding_.reduce_each_micro_batch ? micro_step_ : 0, last_micro_batch_);
  reducing_.push_back({unit, last_micro_batch_});
}

void UnitSchedule::finish_reductions_but(std::size_t outstanding) {
  while (reducing_.size() > outstanding) {
    const Reduction oldest = reducing_.front();
    reducing_.pop_front();
    // At most one sum over replicas is in flight, because each holds memory.
    if (added_by_replicas_ >= 0) at(added_by_replicas_).finish_replica_sum();
    at(oldest.unit).finish_reduce();
    added_by_replicas_ = sharding_.replicas_add_each_micro_batch() ? oldest.unit : -1;
    if (oldest.is_last) at(oldest.unit).start_gradient_exchange();
  }
}

void UnitSchedule::finish_reductions() {
  const profile::ActivityScope activity(Activity::reduce_exposed);  // one for all units, which saves time points
  finish_reductions_but(0);
  for (ShardedUnit& unit : units_) unit.finish_gradient_exchange();
}

Recompute UnitSchedule::recompute(int unit) const {
  const int block = block_index_[static_cast<std::size_t>(unit)];
  if (block < 0 || block % options_.recompute_every != 0) return Recompute::none;
  return options_.recompute;
}

}  // namespace lt::parallel
