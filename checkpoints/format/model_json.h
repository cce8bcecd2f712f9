// Converts the description of a transformer to a JSON object and back, for manifests and plans.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "libtrain/nn/transformer_spec.h"

namespace lt::checkpoint {

// `spec` must be complete; `seq` is the sequence length that it was trained on. Fields that only some models have are
// omitted at their default, so a model has the same text in every version of the library that supports it.
std::string model_to_json(const nn::TransformerSpec& spec, Size seq);
// Returns every field of a complete description, including those at their default.
nlohmann::ordered_json all_fields(const nn::TransformerSpec& spec);

struct ModelDescription {
  nn::TransformerSpec spec;  // complete and valid
  Size seq = 0;              // tokens; 0: not in the text
};
// The text comes from a file and is not trusted: no number may cause an overflow or an allocation before the
// description is compared with the file's parameters. Throws DataError if a field is missing, or has a wrong type or an
// impossible value.
ModelDescription model_from_json(const std::string& text);

}  // namespace lt::checkpoint
