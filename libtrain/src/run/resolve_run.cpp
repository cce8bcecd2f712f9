// Reads run.json, the newest checkpoint, the config.toml of the run, and the headers of the training files.
#include "run/resolve_run.h"

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "checkpoints/memory/memory_folder.h"
#include "comm/value_exchange.h"
#include "config/base_model.h"
#include "config/config_schema.h"
#include "config/origin.h"
#include "io/whole_file.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "run/training_data.h"
#include "save/run_identity.h"

namespace lt::run {
namespace {

using Dtype = std::optional<Precision>;

// Of the newest checkpoint at `folder`; nullopt if there is none, or none that this program can read.
Dtype dtype_of_checkpoint(const std::string& folder, const Models& models) {
  const std::optional<checkpoint::RunState> state = config::state_at(folder);
  if (!state || state->config.empty()) return std::nullopt;
  const std::optional<Config> saved = config::known_config(*state, models);
  return saved ? saved->train.dtype : std::nullopt;
}

// As the last start in run.dir was given it; nullopt for auto.
Dtype dtype_of_last_start(const std::string& run_dir, const Models& models) {
  const std::string path = run_dir + "/config.toml";
  const io::FileText text = io::read_file(path, /*only_regular=*/true);
  if (!text.problem.empty()) return std::nullopt;
  try {
    return config_from_toml(text.text, path, models).train.dtype;
  } catch (const UsageError&) {  // of another program
    return std::nullopt;
  }
}

// Of the state from which a start would continue; nullopt if it would continue from none.
Dtype dtype_to_continue(const Config& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.resume == "never") return std::nullopt;
  if (checkpoint.resume != "auto") return dtype_of_checkpoint(checkpoint.resume, config.models);
  const saver::RunIdentity run = saver::read_identity(config.run.dir);
  // Only the last start has copies in memory, which are newer than its checkpoints. If its dtype was auto, it kept that
  // of the checkpoints.
  std::error_code unknown;
  const bool has_copies = !run.id.empty() && std::filesystem::exists(checkpoint::memory_folder(run.id), unknown);
  if (has_copies && checkpoint.memory_every > 0) {
    if (const Dtype given = dtype_of_last_start(config.run.dir, config.models)) return given;
  }
  const std::string dir = checkpoint.dir.empty() ? config::own_checkpoints(config.run.dir) : checkpoint.dir;
  const Dtype saved = dtype_of_checkpoint(dir, config.models);
  return saved || run.begun_from.empty() ? saved : dtype_of_checkpoint(run.begun_from, config.models);
}

}  // namespace

void keep_dtype(Config& config, const Group& group) {
  if (config.train.dtype || config.train.tf32) return;
  Dtype kept;
  collectively(group, [&] {
    if (group.rank() == 0) kept = dtype_to_continue(config);
  });
  kept = comm::broadcast_value(group, kept);
  if (!kept) return;
  config.train.dtype = kept;
  config.origins["train.dtype"] = config::kFromCheckpoint, config.derived.insert("train.dtype");
}

Resolved resolve_run(const Config& given, int ranks) {
  Resolved resolved = resolve(given, ranks);
  config::name_keys(resolved.config, [&] { set_steps_of_epochs(resolved, ranks); });
  return resolved;
}

}  // namespace lt::run
