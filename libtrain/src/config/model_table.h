// Finds the row of the model table that a configuration chooses, and describes its model.
#pragma once

#include <memory>
#include <string>

#include "libtrain/config/config.h"
#include "libtrain/config/model_table.h"
#include "libtrain/config/resolved.h"

namespace lt::config {

// Throws UsageError for an empty table, clashing names, and fields with an invalid default.
void require_valid(const ModelTable& models);

bool is_transformer(const Config& config);
// Throws UsageError if a layer set a key of [model] or [batches] that the chosen model does not have.
void require_keys_of_model(const Config& config);

// The tokens of a sample if train.seq is 0. 0 if nothing says it: a transformer whose shape is not known yet, a model
// that says none, and a configuration without a model. Makes the model of a row to ask it. Throws as make_model() does.
Size default_seq(const Config& config);

// True if the row makes its own training batches; otherwise they come from token files, and own_batches() returns null.
bool has_own_batches(const Config& config);
std::unique_ptr<BatchSource> own_batches(const Resolved& resolved, const BatchShape& shape);

// A short name: nn::model_name() for a transformer, otherwise the row's name.
std::string model_name(const Resolved& resolved);
// The model's facts. If the model sets no name, the name is its row's, or "model" if it has no row.
nn::ModelFacts facts_of(const nn::Model& model, const Resolved& resolved);
// The transformer's description in checkpoints and plans, read by `ltrain sample` and `export`: a JSON object; {} for
// other models, which only their own program can read.
std::string model_description(const nn::Model& model, Size seq);

// The description in plans and manifests: a JSON object; {} for a model that is neither a transformer nor in the table.
std::string model_description(const nn::Model& model, const Resolved& resolved);

}  // namespace lt::config
