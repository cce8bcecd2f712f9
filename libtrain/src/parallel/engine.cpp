// The engine: builds the units' buffers and runs steps. What a strategy does is in ShardedUnit, when in UnitSchedule.
#include "libtrain/engine.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <limits>
#include <optional>

#include "core/allocator.h"
#include "core/fault.h"
#include "kernels/adamw.h"
#include "kernels/reduce.h"
#include "kernels/settings.h"
#include "libtrain/autograd.h"
#include "libtrain/error.h"
#include "libtrain/memory.h"
#include "libtrain/part_clock.h"
#include "parallel/loss_scaling.h"
#include "parallel/sharded_unit.h"
#include "parallel/step_memory.h"
#include "parallel/step_scalars.h"
#include "parallel/step_slot.h"
#include "parallel/unit_schedule.h"
#include "tensor/dispatch.h"

namespace lt {
namespace {

constexpr const char* kStepProgram = "step";
constexpr const char* kEvaluationProgram = "evaluation";

}  // namespace

struct Engine::Impl {
  Impl(nn::Model& model_, const Group& world, const ParallelOptions& parallel_, const AdamW& adamw_,
       const StepOptions& options_)
      : model(model_),
        parallel(parallel_),
        adamw(adamw_),
        options(options_),
        control(world.duplicate("control")),
        sharding(make_sharding(world, parallel_, options_)) {
    set_kernels();
    for (const nn::UnitInfo& info : model.units()) {
      units.emplace_back(UnitLayout(info.name, info.module->parameters(info.name), world.size()), sharding);
    }
    schedule = std::make_unique<UnitSchedule>(units, model.units(), parallel);
    bind_model();
  }
  ~Impl() {
    model.set_observer(nullptr);
    if (std::uncaught_exceptions() == 0) return;
    // The device may wait for a peer that is gone, what is released below for the device, and NCCL for its graphs.
    for (StepSlot& entry : step_slots) entry.graph.reset();
    sharding.abandon(), control.abandon();
  }

  // The model's parameters are those of this engine, and it is told of the model's passes.
  void bind_model() {
    for (ShardedUnit& unit : units) unit.bind_model();
    model.set_observer(schedule.get());
  }

  void step(const Batch& batch);
  void evaluate(const Batch& batch);
  using Program = void (Impl::*)(const Batch&);
  // Throws UsageError after a step that threw.
  void require_sound() const;
  // The process's settings of kernels become this engine's.
  void set_kernels() const;
  // Runs `program` in the arena.
  void run(const char* name, Program program, const Batch& batch);
  bool runs_as_graph(const Batch& batch) const;
  // The step as a graph, which is captured where the slot has none for such batches.
  void run_graph(const Batch& batch);
  // Rehearses `program` for batches like `batch` and reserves the arena, where that is not done.
  void make_room(const char* name, Program program, const Batch& batch) {
    memory.prepare(name, batch, rehearsal(program));
    memory.reserve();
  }
  // `program` of an engine like this one on the meta device.
  StepMemory::Rehearsal rehearsal(Program program);

  void make_ready(StepSlot& next, const Batch& batch) {
    slot = &next;
    slot->make_ready(batch, {adamw.lr, adamw.beta1, adamw.beta2, static_cast<std::int32_t>(steps + 1)});
  }
  Tensor forward_and_backward(const Batch& micro_batch, Size micro);
  void update();
  // The compute stream waits for the event of hold_update_until(), once.
  void pass_update_gate() {
    if (!update_gate) return;
    const PartScope part(Part::checkpoint);
    Stream::compute(options.device).wait(*update_gate);
    update_gate.reset();
  }
  // mean = that of `all`, of which each rank has written its own part.
  void average_losses(const Tensor& all, const Tensor& mean);

  nn::Model& model;
  ParallelOptions parallel;
  AdamW adamw;
  StepOptions options;
  Group control;
  Sharding sharding;
  std::deque<ShardedUnit> units;
  std::unique_ptr<UnitSchedule> schedule;

  StepScalars scalars{options, control.size(), sharding.reduce.size(), static_cast<Size>(model.units().size())};
  LossScaling scaling{options.dtype, options.device};
  StepMemory memory{options.device, sharding.arena_source()};
  std::array<StepSlot, 2> step_slots{StepSlot(options.device), StepSlot(options.device)};
  StepSlot evaluation_slot{options.device};
  StepSlot* slot = &evaluation_slot;  // of the program that runs
  Size steps = 0, samples = 0;
  RunIds run_ids;
  Size steps_of_engine = 0;  // not of checkpoints
  Size graph_launches = 0;
  std::optional<Event> update_gate;  // of hold_update_until(), for the next update
  bool failed = false;               // a step or an evaluation threw half-way
};

Engine::Engine(nn::Model& model, const Group& world, const ParallelOptions& parallel, const AdamW& optimizer,
               const StepOptions& step)
    : impl_(std::make_unique<Impl>(model, world, parallel, optimizer, step)) {
  for (ShardedUnit& unit : impl_->units) unit.initialise(step.seed);
  trim(step.device);
  for (ShardedUnit& unit : impl_->units) unit.start_publish();
}

Engine::~Engine() = default;

BatchShape Engine::batch_shape() const {
  const StepOptions& options = impl_->options;
  return {options.micro_batch, options.accum, options.seq, impl_->control.rank(), impl_->control.size()};
}

void Engine::rehearse(const Batch& step, const std::optional<Batch>& evaluation) {
  Impl& impl = *impl_;
  if (!impl.options.arena) return;
  impl.memory.prepare(kStepProgram, step, impl.rehearsal(&Impl::step));
  if (evaluation) impl.memory.prepare(kEvaluationProgram, *evaluation, impl.rehearsal(&Impl::evaluate));
  impl.memory.reserve();
}

StepResult Engine::step(const Batch& batch) {
  Impl& impl = *impl_;
  const BatchShape shape = batch_shape();
  if (batch.inputs.dim(0) != shape.samples() || batch.targets.dim(0) != shape.samples()) {
    throw UsageError("engine", "a step takes accum * micro_batch = " + std::to_string(shape.samples()) +
                                   " samples, the batch has " + std::to_string(batch.inputs.dim(0)));
  }
  impl.make_ready(impl.step_slots[static_cast<std::size_t>(impl.steps % 2)], batch);
  impl.runs_as_graph(batch) ? impl.run_graph(batch) : impl.run(kStepProgram, &Impl::step, batch);
  ++impl.steps_of_engine;
  ++impl.steps;
  impl.samples += shape.global_samples();
  return impl.slot->finish(impl.scalars.numbers);
}

void Engine::Impl::step(const Batch& given) {
  for (ShardedUnit& unit : units) unit.publish_late();
  const Batch batch = slot->on_device(given);
  slot->send_rates(scalars.rates);
  const Tensor own_losses = scalars.losses.narrow(0, control.rank() * options.accum, options.accum);
  for (Size micro = 0; micro < options.accum; ++micro) {
    const Size row = micro * options.micro_batch;
    const Batch rows{batch.inputs.narrow(0, row, options.micro_batch),
                     batch.targets.narrow(0, row, options.micro_batch)};
    copy(own_losses.narrow(0, micro, 1), forward_and_backward(rows, micro));
  }
  schedule->finish_reductions();
  average_losses(scalars.losses, scalars.loss);
  update();
}

void Engine::Impl::require_sound() const {
  if (!failed) return;
  throw UsageError("engine", "expected an engine whose steps succeeded: an earlier one ended half-way with an error",
                   "make a new engine and load a checkpoint");
}

void Engine::Impl::set_kernels() const {
  kernels::set_deterministic(parallel.deterministic);
  kernels::set_tf32(options.tf32);
}

void Engine::Impl::run(const char* name, Program program, const Batch& batch) {
  require_sound();
  set_kernels();  // another engine may want them otherwise
  const auto body = [&] {
    failed = true;
    (this->*program)(batch);
    failed = false;
  };
  options.arena ? memory.run(name, batch, rehearsal(program), body) : body();
}

// After two steps every lazily chosen algorithm is cached. Spans and faults inside a step belong to eager ones.
bool Engine::Impl::runs_as_graph(const Batch& batch) const {
  if (!options.cuda_graph || options.device.is_meta() || steps_of_engine < 2 || Timeline::current() != nullptr ||
      fault_in_this_step()) {
    return false;
  }
  if (is_on(batch.inputs, options.device) || (batch.targets.defined() && is_on(batch.targets, options.device))) {
    throw UsageError("engine", "train.cuda_graph: expected batches on the CPU");
  }
  return true;
}

void Engine::Impl::run_graph(const Batch& batch) {
  require_sound();
  const Stream stream = Stream::compute(options.device);
  make_room(kStepProgram, &Impl::step, batch);  // not while the graph is captured
  pass_update_gate();                           // a graph waits for no event from outside of it
  const StepGraph::Key key{shapes_of(batch), memory.arena_number()};
  // A graph always begins with the parameters' gathers, and leaves parameters behind that are not gathered yet; an
  // evaluation before it may have gathered them.
  const auto put_publishing_off = [&] {
    for (ShardedUnit& unit : units) unit.start_publish();
  };
  if (!slot->graph || slot->graph->key() != key) {
    slot->graph.reset();
    put_publishing_off();
    slot->graph.emplace(key, stream, [&] { run(kStepProgram, &Impl::step, batch); });
  }
  slot->graph->launch(stream);
  ++graph_launches;
  put_publishing_off();
}

StepMemory::Rehearsal Engine::Impl::rehearsal(Program program) {
  return [this, program](const std::string& name, const Batch& shapes) {
    struct Restore {  // also where the rehearsal throws
      Impl& engine;
      ~Restore() { engine.bind_model(); }
    } const restore{*this};
    const PartClockScope no_parts(nullptr);
    const TimelineScope no_spans(nullptr);
    const UncountedScope uncounted;
    const UncountedMemoryScope no_memory;
    StepOptions on_meta = options;
    on_meta.device = meta_for(options.device);
    Impl twin(model, control.on_meta(options.device), parallel, adamw, on_meta);
    (twin.*program)(shapes);  // the second run is like all that follow: parameters are on their way when it starts
    MemoryProgram recorded = record_program(name, on_meta.device, [&] { (twin.*program)(shapes); });
    if (sharding.arena_source() != nullptr) require_same_places(recorded, sharding.gather);
    return recorded;
  };
}

Tensor Engine::Impl::forward_and_backward(const Batch& rows, Size micro) {
  const LossGradient seed_gradient = scaling.gradient(1.0 / static_cast<double>(options.accum * control.size()));
  const Size first_sample = samples + (control.rank() * options.accum + micro) * options.micro_batch;
  const nn::ForwardScope context({true, options.seed, static_cast<std::uint64_t>(first_sample), seed_gradient});
  schedule->begin_micro_batch(micro == 0, micro == options.accum - 1);
  Tape tape;
  Tensor result;
  {
    const PartScope part(Part::forward);
    fault_point("forward");
    const TapeScope recording(&tape);
    result = model.loss(rows);
    if (fault_makes_nan("forward")) fill(result, std::numeric_limits<double>::quiet_NaN());
  }
  schedule->end_pass();
  const PartScope part(Part::backward);
  fault_point("backward");
  lt::backward(tape, result, seed_gradient);
  return result.detach().view({1});
}

void Engine::Impl::average_losses(const Tensor& all, const Tensor& mean) {
  const PartScope part(Part::reduce_exposed);
  const Size own = all.elements() / control.size();
  control.all_gather("loss", all, all.narrow(0, own * control.rank(), own)).wait();
  dispatch(options.device, [&](auto stream) {
    kernels::sum_all(stream, DType::f32, mean.data(), all.data(), all.elements(),
                     1.0 / static_cast<double>(all.elements()));
  });
}

// Norm over fixed parts in fixed order (rank, then unit), clipping, AdamW, and the new parameters on their way.
void Engine::Impl::update() {
  const Size count = static_cast<Size>(units.size());
  {
    const PartScope part(Part::optimizer);
    const Tensor own = scalars.partials.narrow(0, count * sharding.reduce.rank(), count);
    for (Size i = 0; i < count; ++i) {
      units[static_cast<std::size_t>(i)].sum_squares(static_cast<double*>(own.narrow(0, i, 1).data()));
    }
    const PartScope waiting(Part::reduce_exposed);
    sharding.reduce.all_gather("norm", scalars.partials, own).wait();
  }
  const PartScope part(Part::optimizer);
  pass_update_gate();
  fault_point("optimizer", Stream::compute(options.device));
  auto* device_scalars = static_cast<kernels::AdamWScalars*>(scalars.adamw.data());
  scaling.copy_scale(scalars.numbers.narrow(0, 2, 1));
  dispatch(options.device, [&](auto stream) {
    kernels::adamw_scalars(stream, device_scalars, scalars.norm.data<float>(), scalars.partials.data<double>(),
                           scalars.partials.elements(), scalars.loss.data<float>(), adamw.clip,
                           static_cast<const kernels::AdamWRates*>(scalars.rates.data()), scaling.on_device());
  });
  for (ShardedUnit& unit : units) {
    unit.update(adamw, device_scalars);
    unit.start_publish();
  }
}

void Engine::set_learning_rate(double lr) { impl_->adamw.lr = static_cast<float>(lr); }

Tensor Engine::evaluate(const Batch& batch) {
  Impl& impl = *impl_;
  impl.make_ready(impl.evaluation_slot, batch);
  impl.run(kEvaluationProgram, &Impl::evaluate, batch);
  impl.slot->finish();
  return impl.scalars.evaluation;
}

void Engine::Impl::evaluate(const Batch& given) {
  for (ShardedUnit& unit : units) unit.publish_late();
  const Batch batch = slot->on_device(given);
  schedule->begin_evaluation();
  const TapeScope no_recording(nullptr);
  const Tensor all = Tensor::zeros({control.size()}, DType::f32, options.device);
  copy(all.narrow(0, control.rank(), 1), model.loss(batch).view({1}));
  schedule->end_pass();
  average_losses(all, scalars.evaluation);
}

void Engine::with_parameters(const std::function<void()>& body) {
  Impl& impl = *impl_;
  for (ShardedUnit& unit : impl.units) unit.start_gather();
  for (ShardedUnit& unit : impl.units) unit.finish_gather();
  struct Restore {  // also where the body throws
    Impl& engine;
    ~Restore() {
      engine.model.set_observer(engine.schedule.get());
      for (ShardedUnit& unit : engine.units) unit.release();
    }
  } const restore{impl};
  impl.model.set_observer(nullptr);
  const TapeScope no_recording(nullptr);
  body();
}

Size Engine::arena_bytes() const { return impl_->memory.arena_bytes(); }
Size Engine::steps_done() const { return impl_->steps; }
Size Engine::graph_launches() const { return impl_->graph_launches; }
Size Engine::samples_done() const { return impl_->samples; }
void Engine::set_progress(Size steps, Size samples) { impl_->steps = steps, impl_->samples = samples; }

const RunIds& Engine::run() const { return impl_->run_ids; }
void Engine::set_run(RunIds run) { impl_->run_ids = std::move(run); }

LossScale Engine::loss_scale() const { return impl_->scaling.read(); }
void Engine::set_loss_scale(const LossScale& scale) { impl_->scaling.write(scale); }

void Engine::hold_update_until(const Event& copied) { impl_->update_gate = copied; }

ShardMap Engine::shard_map() const {
  ShardMap map;
  for (const ShardedUnit& unit : impl_->units) unit.add_to(map);
  return map;
}

void Engine::parameters_changed() {
  for (ShardedUnit& unit : impl_->units) unit.finish_gather();
  for (ShardedUnit& unit : impl_->units) unit.refresh_copies();
  for (ShardedUnit& unit : impl_->units) unit.start_publish();
}

std::vector<const MemoryProgram*> Engine::memory_programs() const {
  std::vector<const MemoryProgram*> programs;
  for (const auto& [key, program] : impl_->memory.programs()) programs.push_back(program.get());
  return programs;
}

std::string Engine::gather_memory() const {
  const GatherMemory& memory = impl_->sharding.gather_memory;
  if (memory.windows != nullptr) return "symmetric windows";
  return memory.why_none.empty() ? "" : "no symmetric windows (" + memory.why_none + ")";
}

const ParallelOptions& Engine::parallel() const { return impl_->parallel; }
const nn::Model& Engine::model() const { return impl_->model; }
const StepOptions& Engine::options() const { return impl_->options; }

Size Engine::padded_parameters() const {
  Size total = 0;
  for (const ShardedUnit& unit : impl_->units) total += unit.layout().padded();
  return total;
}

Size Engine::largest_unit() const {
  Size largest = 0;
  for (const ShardedUnit& unit : impl_->units) largest = std::max(largest, unit.layout().padded());
  return largest;
}

}  // namespace lt
