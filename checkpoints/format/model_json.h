// The description of a transformer in manifests and plans: a JSON object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "libtrain/nn/transformer_spec.h"

namespace lt::checkpoint {

// `spec` must be complete; `seq` is the sequence length that it was trained on. Fields that only some models have are
// omitted at their default, so that the text of a model is the same in every version that knows the model.
std::string model_to_json(const nn::TransformerSpec& spec, Size seq);
// Every field of a complete description.
nlohmann::ordered_json all_fields(const nn::TransformerSpec& spec);

struct ModelDescription {
  nn::TransformerSpec spec;  // complete and valid
  Size seq = 0;              // 0: not in the text
};
// The text comes from a file. So no number may make a reader overflow or take memory before the description is compared
// with the file's parameters. Throws DataError if a field is missing, has another type or is impossible.
ModelDescription model_from_json(const std::string& text);

}  // namespace lt::checkpoint
