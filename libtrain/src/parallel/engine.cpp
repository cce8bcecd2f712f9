// The engine: builds the units' buffers and runs steps. A batch passes from Engine::step() to the model through run(),
// run_eagerly(), train() and forward_and_backward(), in the order of this file.
#include "libtrain/parallel/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "comm/same_calls.h"
#include "device/device_turn.h"
#include "device/fault.h"
#include "device/progress.h"
#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "memory/allocator.h"
#include "ops/loss_pass.h"
#include "parallel/engine_impl.h"
#include "parallel/group_member.h"
#include "parallel/named_units.h"
#include "parallel/same_settings.h"
#include "parallel/transform_scope.h"
#include "profile/activity_clock.h"
#include "tensor/dispatch.h"

namespace lt {

// Anything that may fail on one rank alone, for lack of memory, is kept apart from collectives, so that no rank waits
// for one that has given up.
Engine::Engine(nn::Model& model, const Group& world, const ParallelOptions& parallel, const OptimizerGroups& optimizers,
               const EngineOptions& step) {
  collectively(world, [&] {
    parallel::require_named_units(model);
    optim::require_whole(optimizers, parallel::members_of(model));
    parallel::require_trainable(world, parallel, step);
  });
  parallel::require_same_settings(model, world, parallel, optimizers, step);
  std::optional<parallel::Sharding> sharding = parallel::make_sharding(world, parallel, step);
  try {
    collectively(sharding->control,
                 [&] { impl_ = std::make_unique<Impl>(model, *sharding, parallel, optimizers, step); });
    collectively(sharding->control, [&] {
      const device::DeviceTurn turn(step.device);
      impl_->make_shared();
      if (step.initial_weights) {
        for (parallel::ShardedUnit& unit : impl_->units) unit.initialise(step.seed);
      }
      memory::trim(step.device);
    });
  } catch (const Error& error) {
    // All ranks are here, and nothing is under way between them. So they free their groups together, which destructors
    // do not dare during stack unwinding.
    if (error.shared()) impl_.reset(), sharding.reset();
    throw;
  }
  const device::DeviceTurn turn(step.device);
  for (parallel::ShardedUnit& unit : impl_->units) unit.start_update_gather();
}

Engine::~Engine() = default;

BatchShape Engine::batch_shape() const { return impl_->batch_shape(); }

StepResult Engine::step(const Batch& batch) {
  Impl& impl = *impl_;
  const BatchShape shape = batch_shape();
  impl.require_sound();
  impl.require_same_steps(batch);
  impl.require_samples(batch, shape);
  impl.require_targets(batch.targets);
  if (!impl.options.device.is_meta()) device::begin_step(impl.steps + 1);
  const PhaseScope phase(Phase::step, impl.options.device);
  const device::DeviceTurn turn(impl.options.device);
  impl.bind_model_again();
  impl.make_ready(impl.step_slots[static_cast<std::size_t>(impl.steps_of_engine % 2)], batch);
  impl.run(Impl::kStep, batch);
  ++impl.steps_of_engine;
  ++impl.steps;
  impl.samples += shape.global_samples();
  std::optional<StepResult> result;
  impl.attempt([&] { result = impl.slot->finish(impl.scalars.outcome, &impl.ids); });
  return *result;
}

const Engine::Impl::Pass Engine::Impl::kStep{"step", [](Impl& engine, const Batch& batch) { engine.train(batch); },
                                             true, "pad the batches of a step to one length"};

void Engine::Impl::run(const Pass& pass, const Batch& batch) {
  const std::string key = prepare(pass, batch);
  if (options.fp8 && pass.trains && !form.has_fp8_matmuls) {
    Context::current().give_notice(
        "no matmul of a step is in FP8, which takes linear layers of units made by add_block(), with sizes in "
        "multiples of 16");
  }
  if (pass.trains && runs_as_graph(batch)) return run_graph(pass, batch, key);
  run_eagerly(pass, batch, key);
}

void Engine::Impl::run_eagerly(const Pass& pass, const Batch& batch, const std::string& key) {
  const ContextScope scope(context(Context::current()));
  const auto body = [&] { attempt([&] { pass.body(*this, batch); }); };
  if (uses_arena) {
    rehearsals.run(key, body);
  } else {
    body();
  }
}

void Engine::Impl::train(const Batch& given) {
  begin_gathers();
  const Batch batch = slot->on_device(given);
  slot->send_rates(scalars.rates);
  const Tensor target_weight = count_targets(batch.targets);
  const Tensor own_losses = scalars.losses.narrow(0, control.rank() * options.accum, options.accum);
  for (Size micro = 0; micro < options.accum; ++micro) {
    const Size row = micro * options.micro_batch;
    const auto rows = [&](const Tensor& all) { return all.defined() ? all.narrow(0, row, options.micro_batch) : all; };
    ids.begin_at_sample(row, options.micro_batch);
    const Tensor loss = forward_and_backward(batch.map(rows), micro, target_weight);
    tensor::dispatch(options.device, [&](auto stream) {
      kernels::keep_loss(stream, own_losses.narrow(0, micro, 1).template data<float>(), loss.dtype(), loss.data(),
                         ids.word());
    });
  }
  schedule->finish_reductions();
  end_gathers();
  average_losses(scalars.losses, scalars.outcome.member(&parallel::StepReport::loss));
  update();
  if (!options.cuda_graph) return;
  for (parallel::ShardedUnit& unit : units) unit.finish_early_gather();  // a graph ends only when all its work is done
}

Tensor Engine::Impl::forward_and_backward(const Batch& rows, Size micro, const Tensor& target_weight) {
  const LossGradient seed_gradient = scaling.gradient(1.0 / static_cast<double>(options.accum * control.size()));
  const Size first_sample = batch_shape().sample_of(micro * options.micro_batch);
  const kernels::StepRates* const rates = scalars.rates.get();
  ops::LossPass loss_pass{.gradient = form.gradients_in_forward ? std::optional(seed_gradient) : std::nullopt,
                          .takes_gradients = &schedule->runs_last_unit()};
  const nn::ForwardScope context({.training = true,
                                  .seed = options.seed,
                                  .first_sample = static_cast<std::uint64_t>(first_sample),
                                  .loss = {.may_ignore = options.ignored_targets,
                                           .weight = target_weight,
                                           .z_loss = options.z_loss,
                                           .label_smoothing = options.label_smoothing,
                                           .pass = &loss_pass},
                                  .samples_before = rates != nullptr ? &rates->samples : nullptr,
                                  .samples = options.micro_batch});
  const ContextMemberScope<&Context::makes_host_values> told(&form.makes_host_values);
  schedule->begin_micro_batch(micro, micro == options.accum - 1);
  Tape tape;
  Tensor result;
  {
    const profile::ActivityScope activity(Activity::forward);
    const PhaseScope phase(Phase::forward, options.device);
    device::fault_point("forward");
    const TapeScope recording(&tape);
    result = in_f32(model.loss(rows));
    if (!loss_pass.is_used) require_no_terms();
    const Slot& started_from = loss_pass.started_from;
    if (started_from != nullptr && started_from != result.gradient_slot()) leave_gradients_to_backward();
    if (device::fault_makes_nan("forward")) fill(result, std::numeric_limits<double>::quiet_NaN());
  }
  schedule->end_pass();
  const profile::ActivityScope activity(Activity::backward);
  const PhaseScope phase(Phase::backward, options.device);
  device::fault_point("backward");
  lt::backward(tape, result, seed_gradient);
  return result.detach().view({1});
}

Tensor Engine::Impl::in_f32(const Tensor& loss) {
  if (!loss.defined()) throw UsageError("engine", "loss(): expected a tensor of one element, got none");
  // The gradient of a loss that a model computes in bf16 or f16 still begins in f32.
  return dtype_bytes(loss.dtype()) < dtype_bytes(DType::f32) ? ops::cast(loss, DType::f32) : loss;
}

void Engine::Impl::begin_gathers() {
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].start_late_gather();
    units[i].begin_gathers(i < form.in_e4m3.size() && form.in_e4m3[i]);
  }
}

void Engine::Impl::end_gathers() {
  for (parallel::ShardedUnit& unit : units) unit.end_gathers();
}

void Engine::Impl::average_losses(const Tensor& all, const Tensor& mean) {
  const profile::ActivityScope activity(Activity::reduce_exposed);
  const Size own = all.elements() / control.size();
  control.all_gather("loss", all, all.narrow(0, own * control.rank(), own)).wait();
  Tensor in_order = all;
  if (sharding.elastic) {  // in the order of samples, not of ranks
    in_order = Tensor::empty({own, control.size()}, all.dtype(), all.device());
    copy(in_order, all.view({control.size(), own}).transposed(0, 1));
  }
  tensor::dispatch(options.device, [&](auto stream) {
    kernels::sum_all(stream, DType::f32, mean.data(), in_order.data(), all.elements(),
                     1.0 / static_cast<double>(all.elements()));
  });
}

Tensor Engine::Impl::gather_squares() {
  const Size count = static_cast<Size>(units.size());
  const Tensor own = scalars.partials.narrow(0, count * sharding.reduce.rank(), count);
  for (const parallel::ShardedUnit& unit : units) {
    if (unit.is_trained()) unit.sum_squares();
  }
  const profile::ActivityScope waiting(Activity::reduce_exposed);
  sharding.reduce.all_gather("norm", scalars.partials, own).wait();
  if (!sharding.elastic) return scalars.partials;
  std::vector<const void*> of_ranks;
  for (int rank = 0; rank < sharding.reduce.size(); ++rank) {
    of_ranks.push_back(scalars.partials.narrow(0, count * rank, count).data_or_null());
  }
  tensor::dispatch(options.device, [&](auto stream) {
    kernels::sum_ranks(stream, DType::f64, scalars.squares_of_units.data(), DType::f64, of_ranks.data(),
                       sharding.reduce.size(), count, {});
  });
  return scalars.squares_of_units;
}

// Norm over fixed parts in a fixed order, clipping, optimizer, and the start of the parameters' gathers.
void Engine::Impl::update() {
  const PhaseScope phase(Phase::update, options.device);
  const Size count = static_cast<Size>(units.size());
  const profile::ActivityScope activity(Activity::optimizer);
  const Tensor squares = gather_squares();
  pass_update_gate();
  device::fault_point("optimizer", Stream::compute(options.device));
  const StepNumbers* const numbers = scalars.update.get();
  scaling.copy_scale(scalars.outcome.member(&parallel::StepReport::loss_scale));
  tensor::dispatch(options.device, [&](auto stream) {
    kernels::step_numbers(stream,
                          {.numbers_G = scalars.update.get(),
                           .norm = &scalars.outcome.get()->norm,
                           .partials_n = squares.template data<double>(),
                           .n = squares.elements(),
                           .loss = &scalars.outcome.get()->loss,
                           .clip = static_cast<float>(optimizers.clip),
                           .rates = scalars.rates.get(),
                           .groups = group_rates(),
                           .target_weight = options.ignored_targets ? &scalars.outcome.get()->target_weight : nullptr,
                           .skipped = &scalars.outcome.get()->skipped,
                           .scaling = scaling.on_device()});
  });
  // Matrices: while the owners transform those of one unit, those of the next are in flight to their owners, and those
  // of the one before are in flight back.
  std::array<Size, kTransformLanes> workspace_bytes{};
  for (const parallel::ShardedUnit& unit : units) {
    for (std::size_t lane = 0; lane < workspace_bytes.size(); ++lane) {
      workspace_bytes[lane] = std::max(workspace_bytes[lane], unit.workspace_bytes()[lane]);
    }
  }
  const parallel::TransformScope scope(sharding, workspace_bytes);
  updating = true;
  const auto at = [&](Size i, auto&& stage) {
    if (i >= 0 && i < count) stage(units[static_cast<std::size_t>(i)]);
  };
  for (Size i = 0; i < count + 3; ++i) {
    device::count_progress(options.device);
    at(i, [&](parallel::ShardedUnit& unit) { unit.begin_update(numbers); });
    at(i - 1, [&](parallel::ShardedUnit& unit) { unit.transform_matrices(scope.lanes()); });
    at(i - 2, [&](parallel::ShardedUnit& unit) { unit.return_matrices(); });
    at(i - 3, [&](parallel::ShardedUnit& unit) { unit.end_update(numbers); });
  }
  updating = false;
}

kernels::GroupRates Engine::Impl::group_rates() const {
  kernels::GroupRates rates{static_cast<int>(optimizers.groups.size()), {}};
  for (std::size_t i = 0; i < optimizers.groups.size(); ++i) {
    const OptimizerGroup& group = optimizers.groups[i];
    rates.groups[i].lr_scale = static_cast<float>(group.lr_scale);
    std::copy(group.optimizer.betas.begin(), group.optimizer.betas.end(), rates.groups[i].betas);
  }
  return rates;
}

void Engine::Impl::pass_update_gate() {
  if (!update_gate) return;
  const profile::ActivityScope activity(Activity::checkpoint);
  Stream::compute(options.device).wait(*update_gate);
  update_gate.reset();
}

// After two steps every lazily chosen algorithm is cached. Traced steps and steps with a fault inside run eagerly. So
// does a step beside a copy of the state: launching a graph of some thousand nodes waits until the copy has ended.
bool Engine::Impl::runs_as_graph(const Batch& batch) const {
  if (!options.cuda_graph || options.device.is_meta() || steps_of_engine < 2 ||
      Context::current().timeline != nullptr || update_gate || device::fault_in_this_step()) {
    return false;
  }
  const auto without_graph = [](const char* reason) {
    Context::current().give_notice(std::string("steps run without a CUDA graph: ") + reason);
    return false;
  };
  if (form.makes_host_values) {  // a graph would send those of the captured step again
    return without_graph("loss() makes tensors from values of the host; nn::Buffer keeps them on the device");
  }
  for (const Tensor* values : {&batch.inputs, &batch.targets, &batch.document_starts}) {
    if (values->defined() && parallel::is_on(*values, options.device))
      return without_graph("batches are not on the CPU");
  }
  return true;
}

void Engine::Impl::run_graph(const Pass& pass, const Batch& batch, const std::string& key) {
  const Stream stream = Stream::compute(options.device);
  for (parallel::ShardedUnit& unit : units)
    unit.finish_early_gather();  // of parameters that are new from outside of a step
  const parallel::StepGraph::Key conditions{parallel::shapes_of(batch), rehearsals.memory().arena_number()};
  // A graph always begins with the late gathers, and leaves behind parameters that are not gathered yet. An evaluation
  // before it may have gathered them.
  const auto defer_late_gathers = [&] {
    for (parallel::ShardedUnit& unit : units) unit.defer_late_gather();
  };
  if (!slot->graph || slot->graph->key() != conditions) {
    slot->graph.reset();
    defer_late_gathers();
    slot->graph.emplace(conditions, stream, [&] { run_eagerly(pass, batch, key); });
  }
  attempt([&] { slot->graph->launch(stream); });
  ++graph_launches;
  defer_late_gathers();
}

namespace {

std::string line_of_shapes(const Batch& batch) {
  const std::string shapes = parallel::shapes_of(batch);
  return shapes.empty() ? "none" : shapes.substr(1);
}

[[noreturn]] void refuse_shapes(const char* pass, const comm::LineDifference& found, const char* hint) {
  throw UsageError(
      "engine", std::string(pass) + ": expected a batch of the same shapes on all ranks, " + found.text("none"), hint);
}

}  // namespace

void Engine::Impl::require_same_shapes(const Pass& pass, const Batch& batch) const {
  const auto found = comm::first_difference({line_of_shapes(batch)}, control);
  if (found) refuse_shapes(pass.name, *found, pass.hint);
}

void Engine::Impl::require_same_steps(const Batch& batch) const {
  if (control.size() == 1) return;
  const profile::ActivityScope activity(Activity::gather_exposed);  // a slower rank is waited for here
  const auto found = comm::first_difference({line_of_shapes(batch), fmt::format("{:.17g}", optimizers.lr)}, control);
  if (!found) return;
  if (found->line == 0) refuse_shapes(kStep.name, *found, kStep.hint);
  throw UsageError("engine", "step: expected the same learning rate on all ranks, " + found->text("none"),
                   "set_learning_rate() is called on every rank, with the same number");
}

void Engine::Impl::require_samples(const Batch& batch, const BatchShape& shape) const {
  for (const auto& [name, values] :
       {std::pair{"inputs", &batch.inputs}, {"targets", &batch.targets}, {"document_starts", &batch.document_starts}}) {
    const Size found = values->defined() && values->dims() > 0 ? values->dim(0) : 0;
    if (found == shape.samples() || (!values->defined() && values != &batch.inputs)) continue;
    throw UsageError("engine", std::string("batch.") + name + ": expected accum * micro_batch = " +
                                   std::to_string(shape.samples()) + " samples, got " + std::to_string(found));
  }
}

void Engine::Impl::require_own_parameters() const {
  if (!lends_parameters) return;
  throw UsageError("engine", "expected a body of with_parameters() that does not run or change its engine");
}

void Engine::Impl::require_sound() const {
  require_own_parameters();
  if (!failed) return;
  throw UsageError("engine", "expected an engine whose steps succeeded: an earlier one ended half-way with an error",
                   "make a new engine and load a checkpoint");
}

// A rehearsal has no owner, operation, tape or forward options from a caller, so a step uses none either.
Context Engine::Impl::context(const Context& records) {
  Context own;
  own.timeline = records.timeline, own.clock = records.clock, own.work = records.work, own.calls = records.calls;
  own.notices = records.notices, own.collectives = records.collectives;
  own.counts_memory = records.counts_memory, own.counts_collectives = records.counts_collectives;
  own.ids = &ids, own.graph_calls = records.graph_calls;
  own.kernels = {.deterministic = parallel.deterministic != Determinism::off, .tf32 = options.tf32, .fp8 = options.fp8};
  return own;
}

void Engine::set_learning_rate(double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) {
    throw UsageError("engine", "learning rate: expected a number from 0 on, got " + std::to_string(lr));
  }
  // A schedule may end at a rate that f32 rounds to 0.
  if (!std::isfinite(static_cast<float>(lr))) {
    throw UsageError("engine",
                     "learning rate: expected a number that f32 does not round to infinity, got " + std::to_string(lr));
  }
  impl_->optimizers.lr = lr;
}

}  // namespace lt
