// A whole training run as `ltrain train` does it: run folder, data, engine, resuming, evaluation, checkpoints, metrics.
#pragma once

#include <string>

#include "libtrain/config.h"
#include "libtrain/engine.h"
#include "libtrain/models.h"
#include "libtrain/world.h"

namespace lt {

// The configuration with everything derived filled in: the model's numbers from the preset and its checks, seq, min_lr,
// checkpoint.dir. Throws UsageError.
Config resolve(const Config& config);
nn::TransformerSpec model_spec(const Config& resolved);
ParallelOptions parallel_options(const Config& resolved);
StepOptions step_options(const Config& resolved);
AdamW adamw_options(const Config& resolved);
Schedule schedule_options(const Config& resolved);

// The description of a model as a checkpoint keeps it (a JSON object), with the length it was trained on; and back.
// Throws DataError.
std::string to_json(const nn::TransformerSpec& spec, Size seq);
struct ModelDescription {
  nn::TransformerSpec spec;
  Size seq = 0;
};
ModelDescription model_from_json(const std::string& text);

// Trains until train.steps or train.max_minutes. `command` is written to env.json. All ranks call it.
// Throws UsageError, DataError, CommError, NonFiniteError.
void train(const Config& config, const World& world, const std::string& command);

// Saving and loading an engine outside of train(): the same format. save() returns the folder; load() takes the newest
// valid step of `directory` and returns false where there is none.
std::string save(const Engine& engine, const std::string& directory, const Group& group, int keep = 3);
bool load(Engine& engine, const std::string& directory, const Group& group);

}  // namespace lt
