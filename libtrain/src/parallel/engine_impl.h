// The members of an engine. ShardedUnit implements a strategy, UnitSchedule the order of gathers and reductions, and
// engine.cpp the steps.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "optim/least_loaded.h"
#include "parallel/flat_buffer.h"
#include "parallel/for_tests.h"
#include "parallel/loss_scaling.h"
#include "parallel/rehearsals.h"
#include "parallel/sharded_unit.h"
#include "parallel/shared_block.h"
#include "parallel/step_scalars.h"
#include "parallel/step_slot.h"
#include "parallel/unit_schedule.h"
#include "tensor/id_checks.h"

namespace lt {

struct Engine::Impl {
  // Makes everything that needs no other rank; runs no collective. Call make_shared() next.
  Impl(nn::Model& model_, const parallel::Sharding& sharding_, const ParallelOptions& parallel_,
       const OptimizerGroups& optimizers_, const EngineOptions& options_)
      : model(model_),
        parallel(parallel_),
        optimizers(optimizers_),
        options(options_),
        sharding(sharding_),
        control(sharding.control) {
    // A gather cannot begin in one graph and end in the next. So the first units of the next step are gathered while
    // the rest is updated, and the rest at the beginning of that step, while the first units run.
    constexpr std::size_t kGatheredEarly = 2;
    for (const nn::UnitInfo& info : model.units()) {
      const bool gathers_late = options.cuda_graph && units.size() >= kGatheredEarly;
      units.emplace_back(info.name, info.module->parameters(info.name), sharding, optimizers, matrix_owners,
                         options.seed, gathers_late);
    }
    schedule = std::make_unique<parallel::UnitSchedule>(units, model.units(), parallel, sharding);
    bind_model();
  }
  ~Impl() {
    model.remove_observer(schedule.get());
    if (std::uncaught_exceptions() == 0) return;
    // A dead peer can block the device, freeing waits for the device, and NCCL waits for its graphs. So destroy the
    // graphs first.
    for (parallel::StepSlot& entry : step_slots) entry.graph.reset();
    sharding.abandon();
  }

  // Allocates the memory that peers may access (in windows, such an allocation fails on all ranks or on none) and the
  // model's buffers.
  void make_shared() {
    const auto count = static_cast<Size>(units.size()), ranks = static_cast<Size>(sharding.reduce.size());
    const auto& windows = sharding.peer_memory.windows;
    scalars.make_gathered(options.accum * control.size(), sharding.control_source(), count * ranks, windows);
    if (sharding.elastic) {
      scalars.squares_of_units = parallel::flat_zeros(count, DType::f64, options.device, MemoryOwner::workspace);
    }
    Size square = count * sharding.reduce.rank(), bytes_in_place = 0;
    for (const parallel::ShardedUnit& unit : units) bytes_in_place += unit.bytes_in_place();
    const MemoryOwner owner = sharding.gathers_parameters() ? MemoryOwner::parameters : MemoryOwner::gradients;
    if (bytes_in_place > 0) {
      sharding.in_place = std::make_shared<parallel::SharedBlock>(bytes_in_place, options.device, owner, windows);
    }
    for (parallel::ShardedUnit& unit : units) {
      unit.make_shared();
      unit.keep_squares_in(scalars.partials.narrow(0, square++, 1));
    }
    for (nn::Buffer* const buffer : model.buffers()) {
      constants.emplace_back(buffer, buffer->copy_on(options.device, options.dtype));
      buffer->bind(constants.back().second);
    }
  }

  // Makes the model use this engine's parameters and constants and report its passes to the schedule.
  void bind_model() {
    for (parallel::ShardedUnit& unit : units) unit.bind_model();
    for (const auto& [buffer, values] : constants) buffer->bind(values);
    model.set_observer(schedule.get());
  }

  // Like bind_model(), if another engine has bound the model since.
  void bind_model_again() {
    if (model.observer() != schedule.get()) bind_model();
  }

  // A function that runs in the arena (the preallocated block that holds all step memory), the same on all ranks. Its
  // plan and form also depend on the shapes of the batch (`rehearsals`). Its graph belongs to a slot.
  struct Pass {
    const char* name;
    void (*body)(Impl& engine, const Batch& batch);
    bool trains;       // a training step, which may run as a graph
    const char* hint;  // for batches of different shapes
  };
  static const Pass kStep, kEvaluation;
  void train(const Batch& batch);
  void evaluate(const Batch& batch);
  // Called at the beginning and at the end of train() and evaluate().
  void begin_gathers();
  void end_gathers();
  // Throws UsageError on all ranks unless their batches have the same shapes. All ranks must call it.
  void require_same_shapes(const Pass& pass, const Batch& batch) const;
  // The same before a step, for the learning rate too, in one exchange. A rank whose shapes are known must take part,
  // because those of another rank may be new.
  void require_same_steps(const Batch& batch) const;
  BatchShape batch_shape() const {
    return {options.micro_batch, options.accum, options.seq, control.rank(), control.size(), sharding.elastic};
  }
  // Throws UsageError unless the batch has as many samples as `shape`.
  void require_samples(const Batch& batch, const BatchShape& shape) const;
  // Throws UsageError inside with_parameters().
  void require_own_parameters() const;
  // Like require_own_parameters(), but also throws after a step or an evaluation that threw.
  void require_sound() const;
  // The context of a step: the recorders of `records`, and this engine's kernel settings.
  Context context(const Context& records);
  // Runs a pass in the arena, as a graph if possible. The engine must be sound.
  void run(const Pass& pass, const Batch& batch);
  void run_eagerly(const Pass& pass, const Batch& batch, const std::string& key);
  bool runs_as_graph(const Batch& batch) const;
  // Runs the pass as a graph. Captures it first if the slot has no graph for such batches.
  void run_graph(const Pass& pass, const Batch& batch, const std::string& key);
  // Rehearses the pass (a dry run on shapes only) for batches like `batch` and reserves the arena, unless that is
  // already done. The pass then runs in the form that its rehearsal found. Returns the key of pass and shapes.
  std::string prepare(const Pass& pass, const Batch& batch);
  // Rehearses the pass with an engine like this one on the meta device, unless that is already done.
  std::string rehearse(const Pass& pass, const Batch& batch);
  const Group* arena_windows() const { return sharding.arena_source() == nullptr ? nullptr : &sharding.gather; }
  // Runs `body`. If it throws, require_sound() throws from then on.
  template <class F>
  void attempt(F&& body) {
    failed = true;
    body();
    failed = false;
  }

  void make_ready(parallel::StepSlot& next, const Batch& batch) {
    slot = &next;
    const parallel::StepReport& last = slot->wait();
    if (last.bad_id != 0) attempt([&] { ids.require_none(last.bad_id); });
    slot->make_ready(batch, {.lr = static_cast<float>(optimizers.lr),
                             .step = static_cast<std::int32_t>(steps + 1),
                             .samples = static_cast<std::uint64_t>(samples)});
  }
  // Throws UsageError for targets that the options do not allow.
  void require_targets(const Tensor& targets) const;
  // For a model whose loss ignores the pass's LossOptions. Throws UsageError if the options add terms to the loss or
  // allow ignored targets.
  void require_no_terms() const;
  // For a loss() that returns another tensor than the head's loss. Throws UsageError unless a rehearsal runs, because
  // in a step the head has already computed gradients of its own loss.
  void leave_gradients_to_backward();
  // Returns the factor that turns a mean over all targets of the global batch into a mean over non-ignored targets:
  // [1], f32. Undefined, which means 1, without EngineOptions::ignored_targets.
  Tensor count_targets(const Tensor& own);
  // Returns the loss in f32 (f64 stays), the dtype in which gradients begin. Throws UsageError if loss() returned no
  // tensor.
  static Tensor in_f32(const Tensor& loss);
  Tensor forward_and_backward(const Batch& micro_batch, Size micro, const Tensor& target_weight);
  // Returns sums of squares of the gradients, which together give the norm: f64, by rank and unit or, in an elastic
  // run, by unit.
  Tensor gather_squares();
  void update();
  kernels::GroupRates group_rates() const;
  void pass_update_gate();
  // Gathers `all`, of which each rank has written its own part, and writes its mean to `mean`.
  void average_losses(const Tensor& all, const Tensor& mean);

  nn::Model& model;
  ParallelOptions parallel;
  OptimizerGroups optimizers;
  EngineOptions options;
  parallel::Sharding sharding;
  Group control;
  optim::LeastLoaded matrix_owners{static_cast<std::size_t>(sharding.reduce.size())};
  std::deque<parallel::ShardedUnit> units;
  std::unique_ptr<parallel::UnitSchedule> schedule;
  std::vector<std::pair<nn::Buffer*, Tensor>> constants;  // the model's buffers, replicated on every rank

  parallel::StepScalars scalars{options.device, static_cast<Size>(optimizers.groups.size())};
  tensor::IdChecks ids{options.device, options.device.type == DeviceType::cuda ? &scalars.outcome.get()->bad_id
                                                                               : nullptr};  // of all passes
  parallel::LossScaling scaling{options.dtype, options.device};
  parallel::Rehearsals rehearsals{options.device, sharding.arena_source()};
  std::array<parallel::StepSlot, 2> step_slots{parallel::StepSlot(options.device), parallel::StepSlot(options.device)};
  parallel::StepSlot evaluation_slot{options.device};
  parallel::StepSlot* slot = &evaluation_slot;  // of the current pass
  std::vector<BatchLoss> evaluated;             // losses of the current evaluation
  Size steps = 0, samples = 0;
  RunIds run_ids;
  Size steps_of_engine = 0;  // steps of this engine, without steps before a loaded checkpoint
  Size graph_launches = 0;
  const bool uses_arena = !parallel::SeparateAllocationScope::is_open();
  bool updating = false;             // true during an update, and after one that threw
  bool lends_parameters = false;     // true inside with_parameters()
  parallel::PassForm form{};         // of the current pass
  std::optional<Event> update_gate;  // set by hold_update_for(), for the next update
  bool failed = false;               // true after a step or an evaluation that threw half-way
};

}  // namespace lt
