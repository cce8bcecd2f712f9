// The engine's accessors: progress, state, memory, options.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "device/device_turn.h"
#include "parallel/engine_impl.h"
#include "parallel/for_tests.h"
#include "parallel/group_member.h"

namespace lt {

Size parallel::EngineForTests::graph_launches(const Engine& engine) { return engine.impl_->graph_launches; }

Size Engine::arena_bytes() const { return impl_->rehearsals.memory().arena_bytes(); }
Size Engine::steps_done() const { return impl_->steps; }
Size Engine::samples_done() const { return impl_->samples; }
void Engine::set_progress(Size steps, Size samples) {
  if (steps < 0 || samples < 0) {
    throw UsageError("engine", "progress: expected no negative numbers, got " + std::to_string(steps) + " steps and " +
                                   std::to_string(samples) + " samples");
  }
  impl_->steps = steps, impl_->samples = samples;
}

const RunIds& Engine::run() const { return impl_->run_ids; }
void Engine::set_run(RunIds run) { impl_->run_ids = std::move(run); }

LossScale Engine::loss_scale() const {
  const device::DeviceTurn turn(impl_->options.device);
  if (impl_->options.device.is_meta()) return {};
  const kernels::LossScaleState state = impl_->scaling.read();
  return {state.scale, state.steps, impl_->scalars.outcome.read().skipped};
}

void Engine::set_loss_scale(const LossScale& scale) {
  constexpr Size kMost = std::numeric_limits<std::int32_t>::max();
  if (!(scale.scale > 0) || !std::isfinite(scale.scale) || scale.steps < 0 || scale.steps > kMost ||
      scale.skipped < 0 || scale.skipped > kMost) {
    throw UsageError("engine", "set_loss_scale: expected a positive scale and counts from 0 to 2^31 - 1, got " +
                                   std::to_string(scale.scale) + ", " + std::to_string(scale.steps) + ", " +
                                   std::to_string(scale.skipped));
  }
  const device::DeviceTurn turn(impl_->options.device);
  if (impl_->options.device.is_meta()) return;
  impl_->scaling.write({scale.scale, static_cast<std::int32_t>(scale.steps)});
  parallel::StepReport report = impl_->scalars.outcome.read();
  report.skipped = static_cast<std::int32_t>(scale.skipped);
  impl_->scalars.outcome.write(report);
}

void Engine::hold_update_for(const Stream& stream) { impl_->update_gate.emplace().record(stream); }

ShardMap Engine::shard_map() const {
  if (impl_->updating) {
    throw UsageError("engine", "expected an engine whose updates succeeded: one ended half-way with an error",
                     "make a new engine and load a checkpoint");
  }
  ShardMap map;
  for (const parallel::ShardedUnit& unit : impl_->units) unit.add_to(map);
  map.kinds = {{kMaster, optim::weight_dtype(impl_->optimizers, impl_->options.dtype)}};
  const std::vector<StateKind> states = optim::state_kinds(impl_->optimizers, parallel::members_of(impl_->model));
  map.kinds.insert(map.kinds.end(), states.begin(), states.end());
  return map;
}

std::vector<OptimizerGroupUse> Engine::optimizer_groups() const {
  std::vector<OptimizerGroupUse> uses;
  for (const OptimizerGroup& group : impl_->optimizers.groups) uses.push_back({&group});
  for (const nn::NamedParameter& entry : impl_->model.all_parameters()) {
    if (optim::is_frozen(impl_->optimizers, entry.name)) continue;
    OptimizerGroupUse& use = uses[optim::group_of(impl_->optimizers, parallel::member_of(entry))];
    const Size elements = entry.parameter->shape().elements();
    ++use.tensors, use.elements += elements;
    if (entry.parameter->decays()) use.decayed += elements;
  }
  return uses;
}

void Engine::parameters_changed() {
  impl_->require_own_parameters();
  const device::DeviceTurn turn(impl_->options.device);
  for (parallel::ShardedUnit& unit : impl_->units) unit.finish_gather();
  for (parallel::ShardedUnit& unit : impl_->units) unit.refresh_copies();
  for (parallel::ShardedUnit& unit : impl_->units) unit.start_update_gather();
}

void Engine::initialise() {
  impl_->require_own_parameters();
  const device::DeviceTurn turn(impl_->options.device);
  for (parallel::ShardedUnit& unit : impl_->units) unit.finish_gather();
  for (const StateRange& range : shard_map().needed) {
    if (range.kind != kMaster) fill_zero(range.values);
  }
  for (parallel::ShardedUnit& unit : impl_->units) unit.initialise(impl_->options.seed);
  for (parallel::ShardedUnit& unit : impl_->units) unit.start_update_gather();
  set_progress(0, 0);
  set_loss_scale({.scale = kernels::kFirstLossScale});  // sets `skipped` to 0, too
}

std::vector<const MemoryPlan*> Engine::memory_plans() const {
  std::vector<const MemoryPlan*> plans;
  for (const auto& [key, plan] : impl_->rehearsals.memory().plans()) plans.push_back(plan.get());
  return plans;
}

std::string Engine::peer_memory() const {
  const PeerMemory& memory = impl_->sharding.peer_memory;
  if (memory.windows != nullptr) return "symmetric windows";
  return memory.why_none.empty() ? "" : "no symmetric windows (" + memory.why_none + ")";
}

const ParallelOptions& Engine::parallel() const { return impl_->parallel; }
const nn::Model& Engine::model() const { return impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }

Size Engine::padded_parameters() const {
  Size total = 0;
  for (const parallel::ShardedUnit& unit : impl_->units) total += unit.padded();
  return total;
}

Size Engine::padded_trained() const {
  Size total = 0;
  for (const parallel::ShardedUnit& unit : impl_->units) total += unit.padded_trained();
  return total;
}

Size Engine::largest_unit() const {
  Size largest = 0;
  for (const parallel::ShardedUnit& unit : impl_->units) largest = std::max(largest, unit.padded());
  return largest;
}

}  // namespace lt
