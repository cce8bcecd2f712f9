// Which model a configuration describes.
#pragma once

#include <memory>
#include <string>

#include "libtrain/train/config.h"
#include "libtrain/train/model_table.h"

namespace lt {

// Throws UsageError if names clash.
void require_valid(const ModelTable& models);

// The program's row that model.family names; null for a transformer, and for a model that no row describes.
const ModelRow* own_row(const Config& config);
bool is_transformer(const Config& config);

// The training batches of the row; null: those of token files.
std::unique_ptr<BatchSource> own_batches(const Config& resolved, const BatchShape& shape);

// A short name: the row's, or that of nn::model_name().
std::string model_name(const Config& resolved);
// The description for plans and manifests, a JSON object; empty for a model that no row describes.
std::string model_description(const nn::Model& model, const Config& resolved);

}  // namespace lt
