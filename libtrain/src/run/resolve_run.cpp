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
#include "libtrain/error.h"
#include "run/training_data.h"
#include "save/run_identity.h"

namespace lt::run {
namespace {

// What a run keeps of the state from which it continues, if nobody gives it.
struct Kept {
  std::optional<Precision> dtype;
  Size global_batch = 0;
};

// Returns the values of the newest checkpoint at `folder`; nullopt if this program can read none.
std::optional<Kept> kept_from(const std::string& folder, const Models& models) try {
  const std::string step = config::step_at(folder);
  if (step.empty()) return std::nullopt;
  const checkpoint::RunState state = checkpoint::read_state(step);
  if (state.config.empty()) return std::nullopt;
  const std::optional<Config> saved = config::known_config(state, models);
  if (!saved) return std::nullopt;
  return Kept{saved->train.dtype, global_batch_of(*saved, step)};
} catch (const DataError&) {
  return std::nullopt;
}

// Returns the values of the state from which a start would continue; none if it would continue from none.
Kept kept_values(const Config& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  if (checkpoint.resume == "never") return {};
  if (checkpoint.resume != "auto") return kept_from(checkpoint.resume, config.models).value_or(Kept());
  const saver::RunIdentity run = saver::read_identity(config.run.dir);
  const std::string dir = checkpoint.dir.empty() ? config::own_checkpoints(config.run.dir) : checkpoint.dir;
  std::optional<Kept> saved = kept_from(dir, config.models);
  if (!saved && !run.begun_from.empty()) saved = kept_from(run.begun_from, config.models);
  Kept kept = saved.value_or(Kept());
  // Only the last start has copies in memory, which are newer than its checkpoints. If its dtype was auto, it kept the
  // dtype of the checkpoints.
  std::error_code unknown;
  const bool has_copies = !run.id.empty() && std::filesystem::exists(checkpoint::memory_folder(run.id), unknown);
  if (has_copies && checkpoint.memory_every > 0) {
    if (const auto last_start = config::config_of_run(config.run.dir, config.models)) {
      const TrainConfig& train = last_start->train;
      if (train.dtype) kept.dtype = train.dtype;
      if (train.global_batch > 0) kept.global_batch = train.global_batch;
    }
  }
  return kept;
}

}  // namespace

Size global_batch_of(const Config& saved, const std::string& step_directory) {
  const TrainConfig& train = saved.train;
  if (train.global_batch > 0) return train.global_batch;
  return train.micro_batch * train.accum * checkpoint::read_world_size(step_directory);
}

Size kept_global_batch(const Config& config) { return kept_values(config).global_batch; }

void keep_values(Config& config, const Group& group) {
  TrainConfig& train = config.train;
  const bool keeps_dtype = !train.dtype && !train.tf32;
  const bool keeps_batch = is_elastic(config) && train.global_batch == 0;
  if (!keeps_dtype && !keeps_batch) return;
  Kept kept;
  collectively(group, [&] {
    if (group.rank() == 0) kept = kept_values(config);
  });
  kept = comm::broadcast_value(group, kept);
  if (keeps_dtype && kept.dtype) {
    train.dtype = kept.dtype;
    config.origins["train.dtype"] = config::kFromCheckpoint, config.derived.insert("train.dtype");
  }
  if (keeps_batch && kept.global_batch > 0) {
    train.global_batch = kept.global_batch;
    config.origins["train.global_batch"] = config::kFromCheckpoint;
  }
}

Resolved resolve_run(const Config& given, int ranks) {
  Resolved resolved = resolve(given, ranks);
  config::name_keys(resolved.config, [&] { set_steps_of_epochs(resolved, ranks); });
  return resolved;
}

}  // namespace lt::run
