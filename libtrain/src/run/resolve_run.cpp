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
#include "libtrain/checkpoints/checkpoint.h"
#include "run/training_data.h"
#include "save/run_identity.h"

namespace lt::run {
namespace {

using Dtype = std::optional<Precision>;

// Returns the dtype of the newest checkpoint at `folder`; nullopt if this program can read none.
Dtype dtype_of_checkpoint(const std::string& folder, const Models& models) {
  const std::optional<checkpoint::RunState> state = config::state_at(folder);
  if (!state || state->config.empty()) return std::nullopt;
  const std::optional<Config> saved = config::known_config(*state, models);
  return saved ? saved->train.dtype : std::nullopt;
}

// Returns the dtype of the state from which a start would continue; nullopt if it would continue from none.
Dtype dtype_to_continue(const Config& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.resume == "never") return std::nullopt;
  if (checkpoint.resume != "auto") return dtype_of_checkpoint(checkpoint.resume, config.models);
  const saver::RunIdentity run = saver::read_identity(config.run.dir);
  // Only the last start has copies in memory, which are newer than its checkpoints. If its dtype was auto, it kept the
  // dtype of the checkpoints.
  std::error_code unknown;
  const bool has_copies = !run.id.empty() && std::filesystem::exists(checkpoint::memory_folder(run.id), unknown);
  if (has_copies && checkpoint.memory_every > 0) {
    const std::optional<Config> last_start = config::config_of_run(config.run.dir, config.models);
    if (last_start && last_start->train.dtype) return last_start->train.dtype;
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
