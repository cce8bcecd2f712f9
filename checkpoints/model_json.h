// The description of a transformer as manifests and plans keep it: a JSON object.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "libtrain/nn/transformer_spec.h"

namespace lt::checkpoint {

// `spec` is complete; `seq` is the length it was trained on. Fields that only some models have are left out where they
// have their default, so that the text of a model is the same in every version that knows the model.
std::string model_to_json(const nn::TransformerSpec& spec, Size seq);
// Every field of a complete description.
nlohmann::ordered_json all_fields(const nn::TransformerSpec& spec);

struct ModelDescription {
  nn::TransformerSpec spec;  // complete and valid
  Size seq = 0;              // 0 where the text does not say
};
// It comes from a file, so no number may make a reader overflow or take memory before the description was compared with
// the parameters that the file has. Throws DataError for a field that is missing, of another type or impossible.
ModelDescription model_from_json(const std::string& text);

}  // namespace lt::checkpoint
