// Reads the model that model.from names, and checks that a run can begin from it.
#pragma once

#include <optional>
#include <string>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::config {

// Returns the folder of the newest checkpoint at `path`; empty if there is none, or for a Hugging Face folder.
std::string step_at(const std::string& path);
// Returns the run state of the newest checkpoint at `path`; nullopt if none can be read, or for a Hugging Face folder.
std::optional<checkpoint::RunState> state_at(const std::string& path);
// Returns the run's configuration; nullopt if a program with other models or keys wrote it.
std::optional<Config> known_config(const checkpoint::RunState& state, const Models& models = transformer_models());
// Like known_config(), but returns the default configuration if the saved one is missing or unreadable.
Config config_of(const checkpoint::RunState& state);

// Returns the configuration in the config.toml of a run's folder; nullopt if it is missing, or if a program with other
// models or keys wrote it.
std::optional<Config> config_of_run(const std::string& run_dir, const Models& models);

// True if both have a path in model.from and the paths, made absolute and canonical, are equal.
bool begin_from_one_path(const Config& a, const Config& b);

// True if a layer sets model.preset. Ignores the default preset in a file, because to_toml() writes it even if no layer
// set a preset.
bool names_preset(const Config& config);

// Returns the model of a Hugging Face folder, or of the newest checkpoint at `path`; nullopt if no checkpoint can be
// read or it holds no transformer. Throws DataError for a broken Hugging Face folder.
std::optional<nn::TransformerSpec> model_at(const std::string& path);

// Throws DataError if model_at() returns nullopt. The error says what is there instead.
void require_model_at(const std::string& from);

// Throws DataError, which names the field and both values, if `spec` differs from `base`, the model of the weights in
// `where`, in more than adapters, dropout and, with rotary positions, max_seq, rope_base and rope_scaling.
void require_same_spec(const nn::TransformerSpec& spec, const nn::TransformerSpec& base, const std::string& where);

// Like require_model_at() for model.from. Also throws UsageError if the model differs from that model in more than
// adapters, dropout and, with rotary positions, model.max_seq, model.rope_base and model.rope_scaling. The error names
// the key and both values. A preset set together with a Hugging Face folder must match the folder too.
void require_same_model(const Config& config);

}  // namespace lt::config
