// The model that model.from names, and whether a run can begin from it.
#pragma once

#include <optional>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::config {

// What the newest checkpoint at `path` says of its run; nullopt if none can be read, or in a Hugging Face folder.
std::optional<checkpoint::RunState> state_at(const std::string& path);
// The run's configuration; nullopt if a program of other models or keys wrote it.
std::optional<Config> known_config(const checkpoint::RunState& state, const Models& models = transformer_models());
// The same; the default where it is not known: programs may save any text, and an imported folder none.
Config config_of(const checkpoint::RunState& state);

// Whether both name a path in model.from, and the same one, however it is spelled.
bool begin_from_one_path(const Config& a, const Config& b);

// Whether a layer names a preset. to_toml() writes the default one for a configuration without, so in a file it is
// none.
bool names_preset(const Config& config);

// The model of a Hugging Face folder, or of the newest checkpoint there; nullopt if no checkpoint can be read, which is
// an error only when its weights are. Throws DataError for a broken folder.
std::optional<nn::TransformerSpec> model_at(const std::string& path);

// Throws DataError, with what is found instead, where model_at() finds none.
void require_model_at(const std::string& from);

// The same, and throws UsageError unless the model is that of model.from, but for adapters, dropout, and the
// length and scaling of rotary positions. Names the key and both values.
void require_same_model(const Config& config);

}  // namespace lt::config
