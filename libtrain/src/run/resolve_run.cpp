// Reads the newest checkpoint, the run's config.toml, and the headers of the training files.
#include "run/resolve_run.h"

#include <optional>
#include <string>

#include "config/base_model.h"
#include "config/config_schema.h"
#include "config/origin.h"
#include "io/whole_file.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "run/training_data.h"

namespace lt::run {
namespace {

// The configuration of the newest checkpoint at `folder`; nullopt if there is none, or none that this program can read.
std::optional<Config> config_of_checkpoint(const std::string& folder, const Models& models) {
  const std::optional<checkpoint::RunState> state = config::state_at(folder);
  return state && !state->config.empty() ? config::known_config(*state, models) : std::nullopt;
}

// The configuration of the last start in run.dir.
std::optional<Config> config_of_last_start(const std::string& run_dir, const Models& models) {
  const std::string path = run_dir + "/config.toml";
  const io::FileText text = io::read_file(path, /*only_regular=*/true);
  if (!text.problem.empty()) return std::nullopt;
  try {
    return config_from_toml(text.text, path, models);
  } catch (const UsageError&) {  // of another program
    return std::nullopt;
  }
}

// The configuration of the state from which a start would continue; nullopt if it would continue from none.
std::optional<Config> config_to_continue(const Config& given) {
  const CheckpointConfig& checkpoint = given.checkpoint;
  if (checkpoint.resume == "never") return std::nullopt;
  if (checkpoint.resume != "auto") return config_of_checkpoint(checkpoint.resume, given.models);
  const std::string dir = checkpoint.dir.empty() ? config::own_checkpoints(given.run.dir) : checkpoint.dir;
  const std::optional<Config> saved = config_of_checkpoint(dir, given.models);
  // A run that began from another run's checkpoint may have none of its own yet.
  return saved ? saved : config_of_last_start(given.run.dir, given.models);
}

// A run keeps its dtype on another device, so that its losses continue as they were.
Config with_dtype_kept(Config config) {
  if (config.train.dtype || config.train.tf32) return config;
  const std::optional<Config> earlier = config_to_continue(config);
  if (!earlier || !earlier->train.dtype) return config;
  config.train.dtype = earlier->train.dtype;
  config.origins["train.dtype"] = config::kFromCheckpoint;
  return config;
}

}  // namespace

Resolved resolve_run(const Config& given, int ranks) {
  Resolved resolved = resolve(with_dtype_kept(given), ranks);
  config::name_keys(resolved.config, [&] { set_steps_of_epochs(resolved, ranks); });
  return resolved;
}

}  // namespace lt::run
