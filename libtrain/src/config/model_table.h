// Which model a configuration describes.
#pragma once

#include <memory>
#include <string>

#include "libtrain/config/config.h"
#include "libtrain/config/model_table.h"
#include "libtrain/config/resolved.h"

namespace lt::config {

// Throws UsageError for an empty table, names that clash, and fields whose default is not valid.
void require_valid(const ModelTable& models);

bool is_transformer(const Config& config);
// Throws UsageError for a key of [model] that a layer set and the chosen model does not have.
void require_keys_of_model(const Config& config);

// Whether the row has training batches of its own, and these batches; null: those of token files.
bool has_own_batches(const Config& config);
std::unique_ptr<BatchSource> own_batches(const Resolved& resolved, const BatchShape& shape);

// A short name: the row's, or that of nn::model_name().
std::string model_name(const Resolved& resolved);
// The model's facts. A model that gives itself no name has that of its row, and without one "model".
nn::ModelFacts facts_of(const nn::Model& model, const Resolved& resolved);
// The transformer's description in checkpoints and plans, for `ltrain sample` and `export`: a JSON object. It is empty
// for another model, which only its own program can read.
std::string model_description(const nn::Model& model, Size seq);

// The description for plans and manifests: a JSON object, {} for a model of which nothing is known.
std::string model_description(const nn::Model& model, const Resolved& resolved);

}  // namespace lt::config
