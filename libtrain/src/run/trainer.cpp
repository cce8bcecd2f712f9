// The public entry points of a run: for any model with options, and for the configuration's model.
#include "libtrain/run/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config_schema.h"
#include "config/model_table.h"
#include "config/optimizer_choices.h"
#include "config/origin.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "nn/spec_fields.h"
#include "run/resolve_run.h"
#include "run/run_signals.h"
#include "run/training_loop.h"

namespace lt {
namespace {

// Checks values as those of a file are checked.
Config checked(Config config) {
  for (const config::Key& key : config::schema(*config.models)) {
    config::assign(config, key, config::value_of(config, key));
  }
  return config;
}

constexpr const char* kOfOptimizers[] = {"optim.beta1",    "optim.beta2",       "optim.eps",    "optim.weight_decay",
                                         "optim.momentum", "optim.state_dtype", "optim.master", "optim.groups"};
constexpr const char* kOfSchedule[] = {"optim.lr", "optim.min_lr", "optim.warmup", "optim.schedule"};

// Throws UsageError unless the key has its default, because `own` of the program's own is there instead.
void require_default(const Config& config, const char* name, const char* own) {
  const Config unset = default_config(config.models);
  for (const config::Key& key : config::schema(*config.models)) {
    if (key.full_name() != name) continue;
    const std::string expected = config::toml_text(unset, key), found = config::toml_text(config, key);
    if (found == expected) return;
    throw UsageError("config", name, fmt::format("its default {} with {} of the program's own", expected, own), found);
  }
}

// "own:lion+adamw".
std::string name_of(const std::vector<OptimizerGroup>& groups) {
  std::vector<std::string> names;
  for (const OptimizerGroup& group : groups) {
    const std::string& name = group.optimizer.name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}{}", config::kOwnOptimizers, fmt::join(names, "+"));
}

// Checks that nothing is given twice, and notes in the configuration what the program gives as functions.
void note_own_parts(Config& config, const TrainerOptions& options) {
  const auto replace = [&](const auto& keys, const char* own) {
    for (const char* const key : keys) {
      require_default(config, key, own);
      config.replaced.insert(key);
    }
  };
  if (!options.optimizers.empty()) {
    require_default(config, "optim.name", "optimizers");
    replace(kOfOptimizers, "optimizers");
    config.optim.name = name_of(options.optimizers);
  }
  if (options.schedule) replace(kOfSchedule, "a schedule");
  const EvaluationBatches& evaluation = options.evaluation;
  if (evaluation.batch) {
    if (evaluation.count < 1)
      throw UsageError("train", "evaluation.count", "at least 1", std::to_string(evaluation.count));
    for (const char* const key : {"data.val", "train.eval_tokens"}) require_default(config, key, "evaluation batches");
    if (config.train.eval_every == 0) {
      throw UsageError("config", "train.eval_every", "at least 1 with evaluation batches", "0");
    }
  } else if (evaluation.count != 0) {
    throw UsageError("train", "evaluation.batch", "a function that returns the batches", "none");
  }
}

// Adds what the program gives as functions.
Resolved with_own_parts(Resolved resolved, const TrainerOptions& options) {
  if (!options.optimizers.empty()) resolved.optimizers.groups = options.optimizers;
  if (const double ema = resolved.config.optim.ema; !options.optimizers.empty() && ema > 0) {
    for (OptimizerGroup& group : resolved.optimizers.groups)
      group.optimizer = averaged(std::move(group.optimizer), ema);
  }
  resolved.own_schedule = options.schedule;
  resolved.evaluation.own = options.evaluation;
  resolved.console = options.console;
  return resolved;
}

// A transformer is described by [model], as in `ltrain train`, so that `ltrain` reads its run. No key describes the
// shape of another model.
Config config_of(const nn::Model& model, const TrainerOptions& options) {
  static const Models no_models = std::make_shared<const ModelTable>();
  const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model);
  Config config = default_config(transformer == nullptr ? no_models : transformer_models());
  if (transformer != nullptr) static_cast<nn::TransformerSpec&>(config.model) = transformer->spec();
  static_cast<WeightsConfig&>(config.model) = options.model;
  config.data = options.data, config.parallel = options.parallel, config.train = options.train;
  config.optim = options.optim, config.checkpoint = options.checkpoint, config.record = options.record;
  config.watchdog = options.watchdog, config.run = options.run;
  if (transformer == nullptr && config.train.seq == 0)
    config.train.seq = model.default_seq();  // no row makes the model
  config = checked(config);
  note_own_parts(config, options);
  if (transformer == nullptr) return config;
  for (const nn::SpecField& field : nn::spec_fields())
    config.origins[config::key_of_field(field)] = config::kFromProgram;
  return config;
}

}  // namespace

Trainer::Trainer(const World& world, nn::Model& model, const TrainerOptions& options)
    : world_(world), model_(model), resolved_(std::make_unique<Resolved>()) {
  Config config;
  collectively(world.group(), [&] { config = config_of(model, options); });
  run::keep_values(config, world.group());
  collectively(world.group(), [&] { *resolved_ = with_own_parts(run::resolve_run(config, world.size()), options); });
}
Trainer::~Trainer() = default;

BatchShape Trainer::batch_shape() const { return resolved_->batch_shape(world_.rank(), world_.size()); }

ExitCode Trainer::run(BatchSource* batches, const StepCallback& on_step) {
  const run::RunSignals signals;
  return run::run_training(*resolved_, world_, {model_, state_, batches, on_step});
}

ExitCode Trainer::train(BatchSource& batches, const StepCallback& on_step) { return run(&batches, on_step); }
ExitCode Trainer::train(const StepCallback& on_step) { return run(nullptr, on_step); }

Plan plan(const std::function<std::unique_ptr<nn::Model>()>& make_model, const TrainerOptions& options, int ranks,
          const PlanMachine& machine) {
  const auto model = make_model();
  const DeviceType device = machine.device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  const Resolved resolved =
      with_own_parts(resolve(on_machine(config_of(*model, options), machine), ranks, device), options);
  Plan plan;
  config::name_keys(resolved.config, [&] { plan = make_plan(*model, resolved, ranks, machine); });
  return plan;
}

ExitCode train(const Config& given, const World& world) {
  const run::RunSignals signals;
  Resolved resolved;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<BatchSource> batches;
  State state;
  Config config = given;
  run::keep_values(config, world.group());
  collectively(world.group(), [&] {
    resolved = run::resolve_run(config, world.size());
    config::name_keys(resolved.config, [&] {
      model = make_model(resolved);
      batches = config::own_batches(resolved, resolved.batch_shape(world.rank(), world.size()));
    });
  });
  return run::run_training(resolved, world, {*model, state, batches.get()});
}

}  // namespace lt
