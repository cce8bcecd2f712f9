// The public forms of a run: of any model by options, and of a built-in model by a configuration.
#include "libtrain/train/trainer.h"

#include <algorithm>
#include <memory>
#include <string>

#include "io/whole_file.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "libtrain/train/run_options.h"
#include "train/run_signals.h"
#include "train/training_loop.h"

namespace lt {
namespace {

// Checks values as those of a file are checked. The lines of the text that they are read from say nothing to a user.
Config checked(const Config& config) {
  try {
    Config read = config_from_toml(to_toml(config), "options");
    read.origins.clear();
    return read;
  } catch (const UsageError& error) {
    const std::string message = error.what();
    throw UsageError(error.component(), message.substr(0, message.rfind(" (from options:")), error.hint());
  }
}

// A transformer is described by [model], as in `ltrain train`, so that `ltrain` reads its run. No key describes another
// model.
Config config_of(const nn::Model& model, const TrainerOptions& options) {
  Config config;
  config.data = options.data, config.parallel = options.parallel, config.train = options.train;
  config.optim = options.optim, config.checkpoint = options.checkpoint, config.record = options.record;
  config.watchdog = options.watchdog, config.run = options.run;
  if (const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model)) {
    static_cast<nn::TransformerSpec&>(config.model) = transformer->spec();
  } else {
    config.model.is_programs_own = true;
  }
  const bool is_own = config.model.is_programs_own;
  config = checked(config);
  config.model.is_programs_own = is_own;
  return config;
}

}  // namespace

Trainer::Trainer(const World& world, nn::Model& model, const TrainerOptions& options)
    : world_(world), model_(model), config_([&] {
        Config config;
        collectively(world.group(), [&] { config = complete(config_of(model, options), world.size()); });
        return config;
      }()) {}

BatchShape Trainer::batch_shape() const {
  const TrainConfig& train = config_.train;
  return {train.micro_batch, train.accum, train.seq, world_.rank(), world_.size()};
}

ExitCode Trainer::run(BatchSource* batches, const StepCallback& on_step) {
  const RunSignals signals;
  std::string command = read_file("/proc/self/cmdline").text;
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::ranges::replace(command, '\0', ' ');
  return run_training(config_, world_, {model_, batches, on_step, command});
}

ExitCode Trainer::train(BatchSource& batches, const StepCallback& on_step) { return run(&batches, on_step); }
ExitCode Trainer::train(const StepCallback& on_step) { return run(nullptr, on_step); }

Plan plan(const std::function<std::unique_ptr<nn::Model>()>& make_model, const TrainerOptions& options, int ranks,
          const PlanMachine& machine) {
  const auto model = make_model();
  const DeviceType device = machine.device == "cpu" ? DeviceType::cpu : DeviceType::cuda;
  return make_plan(*model, with_accum(resolve(config_of(*model, options), device), ranks), ranks, machine);
}

ExitCode train(const Config& given, const World& world, const std::string& command) {
  const RunSignals signals;
  Config config;
  std::unique_ptr<nn::Model> model;
  collectively(world.group(), [&] {
    config = complete(given, world.size());
    model = nn::make_transformer(model_spec(config));
  });
  return run_training(config, world, {*model, nullptr, {}, command});
}

}  // namespace lt
