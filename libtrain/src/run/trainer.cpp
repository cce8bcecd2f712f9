// The public entry points of a run: for any model with options, and for the configuration's model.
#include "libtrain/run/trainer.h"

#include <algorithm>
#include <memory>
#include <string>

#include "config/config_schema.h"
#include "config/model_table.h"
#include "config/origin.h"
#include "io/whole_file.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "nn/spec_fields.h"
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
  config = checked(config);
  if (transformer == nullptr) return config;
  for (const nn::SpecField& field : nn::spec_fields())
    config.origins[config::key_of_field(field)] = config::kFromProgram;
  return config;
}

}  // namespace

Trainer::Trainer(const World& world, nn::Model& model, const TrainerOptions& options)
    : world_(world), model_(model), resolved_(std::make_unique<Resolved>()) {
  collectively(world.group(), [&] { *resolved_ = run::resolve_run(config_of(model, options), world.size()); });
}
Trainer::~Trainer() = default;

BatchShape Trainer::batch_shape() const { return resolved_->batch_shape(world_.rank(), world_.size()); }

ExitCode Trainer::run(BatchSource* batches, const StepCallback& on_step) {
  const run::RunSignals signals;
  std::string command = io::read_file("/proc/self/cmdline").text;
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::ranges::replace(command, '\0', ' ');
  return run::run_training(*resolved_, world_, {model_, state_, batches, on_step, command});
}

ExitCode Trainer::train(BatchSource& batches, const StepCallback& on_step) { return run(&batches, on_step); }
ExitCode Trainer::train(const StepCallback& on_step) { return run(nullptr, on_step); }

Plan plan(const std::function<std::unique_ptr<nn::Model>()>& make_model, const TrainerOptions& options, int ranks,
          const PlanMachine& machine) {
  const auto model = make_model();
  const DeviceType device = machine.device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  const Resolved resolved = resolve(config_of(*model, options), ranks, device);
  Plan plan;
  config::name_keys(resolved.config, [&] { plan = make_plan(*model, resolved, ranks, machine); });
  return plan;
}

ExitCode train(const Config& given, const World& world, const std::string& command) {
  const run::RunSignals signals;
  Resolved resolved;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<BatchSource> batches;
  State state;
  collectively(world.group(), [&] {
    resolved = run::resolve_run(given, world.size());
    config::name_keys(resolved.config, [&] {
      model = make_model(resolved);
      batches = config::own_batches(resolved, resolved.batch_shape(world.rank(), world.size()));
    });
  });
  return run::run_training(resolved, world, {*model, state, batches.get(), {}, command});
}

}  // namespace lt
