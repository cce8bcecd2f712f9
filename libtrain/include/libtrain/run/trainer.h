// A whole training run: run folder, data, engine, resuming, evaluation, checkpoints, metrics, signals.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/world.h"
#include "libtrain/config/config.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/error.h"
#include "libtrain/nn/module.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

// The sections of a configuration. [model] has only `from` and `freeze`, because the program makes the model.
// docs/configuration.md explains every key.
struct TrainerOptions {
  WeightsConfig model = {};
  DataConfig data = {};  // its files are read unless the program has batches of its own; data.val in either case
  ParallelConfig parallel = {};
  TrainConfig train = {};
  OptimConfig optim = {};
  CheckpointConfig checkpoint = {};
  RecordConfig record = {};
  WatchdogConfig watchdog = {};
  RunConfig run = {};
};

// A finished step, the same on all ranks but for its rate.
struct TrainedStep {
  Size step = 0, steps = 0;  // `steps`: of the whole run
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_s = 0;  // of all ranks
};

// The run of any model, with the files, log lines, signals and exit codes of `ltrain train`. A start in the folder of
// an unfinished run goes on from its newest valid checkpoint.
class Trainer {
 public:
  using StepCallback = std::function<void(const TrainedStep&)>;

  // Checks the options. World and model must outlive the trainer. A model that is no transformer needs `train.seq` if
  // its samples are not one token long. All ranks must construct it alike. Throws UsageError and DataError.
  Trainer(const World& world, nn::Model& model, const TrainerOptions& options);
  ~Trainer();

  // This rank's share of a step, for the batch source.
  BatchShape batch_shape() const;

  // Trains on `batches` until train.steps or train.max_minutes and returns ExitCode::ok. If any rank receives a
  // SIGTERM, SIGUSR1 or SIGINT, all ranks stop after the same step, save its state, and return ExitCode::restart; while
  // it runs, it handles those signals and ignores SIGPIPE. Every rank calls `on_step` after each step, in order; on a
  // GPU the next step may have begun. All ranks must call it, once. Throws UsageError, DataError, CommError,
  // NonFiniteError.
  ExitCode train(BatchSource& batches, const StepCallback& on_step = {});
  // The same on the files of `options.data`.
  ExitCode train(const StepCallback& on_step = {});

 private:
  ExitCode run(BatchSource* batches, const StepCallback& on_step);

  const World& world_;
  nn::Model& model_;
  const std::unique_ptr<Resolved> resolved_;
};

// Predicts the needs of a Trainer's run on `ranks` ranks of `machine.device` (by default the CPU) without running it.
// Memory is exact for a run on that device. Throws UsageError.
Plan plan(const std::function<std::unique_ptr<nn::Model>()>& make_model, const TrainerOptions& options, int ranks,
          const PlanMachine& machine = {});

// A run of the model that the configuration describes, as in `ltrain train`; see Trainer::train(). `command` is written
// to env.json.
ExitCode train(const Config& config, const World& world, const std::string& command);

}  // namespace lt
