// A complete training run of any model: run folder, data, engine, resume, evaluation, checkpoints, metrics, signals.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/world.h"
#include "libtrain/config/config.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/error.h"
#include "libtrain/nn/module.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

// The sections of a configuration; docs/reference/configuration.md explains every key. [model] has only `from` and
// `freeze`, because the program makes the model. The members after the sections replace keys, which must then have
// their defaults.
struct TrainerOptions {
  WeightsConfig model = {};
  DataConfig data = {};  // training files unless the program passes batches, and data.val unless it passes `evaluation`
  ParallelConfig parallel = {};
  TrainConfig train = {};
  OptimConfig optim = {};
  CheckpointConfig checkpoint = {};
  RecordConfig record = {};
  WatchdogConfig watchdog = {};
  RunConfig run = {};

  // The program's optimizers, as in OptimizerGroups, such as {{"*", my_optimizer()}}. They replace name, beta1, beta2,
  // eps, weight_decay, momentum, state_dtype, master and groups of `optim`. The other members of `optim` apply:
  // learning rates and their schedule, clip, ema.
  std::vector<OptimizerGroup> optimizers = {};
  // Returns the learning rate of a step, counted from 1. It must depend on the step alone, and be equal on all ranks.
  // It replaces lr, min_lr, warmup and schedule of `optim`.
  std::function<double(Size step)> schedule = {};
  // The batches of an evaluation (train.eval_every). They replace data.val and train.eval_tokens.
  EvaluationBatches evaluation = {};
  // Takes each line of the console on rank 0, without its end; empty: standard output. log.txt has every line anyway.
  std::function<void(std::string_view line)> console = {};
};

// A finished step. Only tokens_per_s differs between ranks.
struct TrainedStep {
  Size step = 0, steps = 0;                // number of this step, from 1; number of steps of the run
  double loss = 0, grad_norm = 0, lr = 0;  // loss or norm not finite: the step had no update
  double tokens_per_s = 0;                 // of all ranks, by this rank's clock
  // The loss of the evaluation after this step; nullopt if the run does not evaluate here, if no target counts, or if a
  // signal or the program stops the run first. The next start makes up for such an evaluation, and does not report it
  // here.
  std::optional<double> eval_loss = std::nullopt;
};

// A function that a run calls after each step with its TrainedStep. It returns nothing, or a bool: false stops the run.
class StepCallback {
 public:
  StepCallback() = default;
  template <std::invocable<const TrainedStep&> F>
  StepCallback(F function) {
    using Result = std::invoke_result_t<F&, const TrainedStep&>;
    static_assert(std::is_void_v<Result> || std::is_same_v<Result, bool>,
                  "expected a function that returns nothing or a bool");
    std::function<Result(const TrainedStep&)> call(std::move(function));
    if (!call) return;
    if constexpr (std::is_same_v<Result, bool>) {
      call_ = std::move(call), may_stop_ = true;
    } else {
      call_ = [call = std::move(call)](const TrainedStep& step) { return call(step), true; };
    }
  }

  explicit operator bool() const { return call_ != nullptr; }
  bool may_stop() const { return may_stop_; }
  // Returns false to stop the run.
  bool operator()(const TrainedStep& step) const { return call_(step); }

 private:
  std::function<bool(const TrainedStep&)> call_;
  bool may_stop_ = false;
};

// Runs a training like `ltrain train`, with its files, log lines, signals and exit codes. If run.dir holds an
// unfinished run, the training continues from its newest valid checkpoint (unless checkpoint.resume says otherwise).
class Trainer {
 public:
  // Checks the options. `world` and `model` must outlive the Trainer. options.train.seq, the tokens per sample,
  // defaults to model.default_seq(). All ranks must construct the Trainer with the same arguments. Throws UsageError
  // for wrong options and if neither options nor model give train.seq, and DataError if data or model.from cannot be
  // read.
  Trainer(const World& world, nn::Model& model, const TrainerOptions& options);
  ~Trainer();

  // This rank's share of a step, which a BatchSource must deliver.
  BatchShape batch_shape() const;

  // What the program keeps in the run's checkpoints, in memory and on disk, besides model and optimizer. `on_step` may
  // change it: the checkpoint of a step has the state after `on_step` of that step, on rank 0. When train() continues
  // from a checkpoint, or finds the run complete, it replaces the state on every rank by the checkpoint's, before it
  // calls BatchSource::seek(). A run that begins from another run's checkpoint (checkpoint.resume) takes over its state
  // too. Any other new run keeps what the program has put in before. Throws UsageError after a step whose state breaks
  // a rule of lt::State.
  State& state() { return state_; }

  // Trains on `batches` until train.steps, and returns ExitCode::ok. If train.max_minutes end earlier, all ranks stop
  // after the same step, save their state, and return ExitCode::restart; a later start continues. If any rank receives
  // SIGTERM, SIGUSR1 or SIGINT, they do the same. If `on_step` returns false on any rank, they do the same, but return
  // ExitCode::ok. A second SIGINT ends the process at once with code 130. Until train() returns, it handles these
  // signals and ignores SIGPIPE. Every rank calls `on_step` after each step, in order, and after the evaluation of that
  // step if there is one. On a GPU the next step may already run; the run then stops after that one. All ranks must
  // call train(), and only once. Throws UsageError, DataError, CommError, NonFiniteError if loss or gradient norm is
  // not finite (in f16: at loss scale 1, from which it cannot fall) in more than train.skip_nonfinite steps in a row,
  // and the exceptions of the program's functions.
  ExitCode train(BatchSource& batches, const StepCallback& on_step = {});
  // Like train() above, on the files of options.data.
  ExitCode train(const StepCallback& on_step = {});

 private:
  ExitCode run(BatchSource* batches, const StepCallback& on_step);

  const World& world_;
  nn::Model& model_;
  const std::unique_ptr<Resolved> resolved_;
  State state_;
};

// Predicts the memory and the time of a Trainer's run on `ranks` ranks, without running it. Both are for machine.device
// if that is a GPU or machine.is_given, else for options.train.device (default: the CPU). The memory is exact, the time
// an estimate. Throws UsageError for wrong options.
Plan plan(const std::function<std::unique_ptr<nn::Model>()>& make_model, const TrainerOptions& options, int ranks,
          const PlanMachine& machine = {});

// Trains the model that `config` describes, like `ltrain train`. Returns and throws as Trainer::train() does.
ExitCode train(const Config& config, const World& world);

}  // namespace lt
