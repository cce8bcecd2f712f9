// config.json of a Hugging Face folder: written from a model's description, and read into one.
#pragma once

#include <string>

#include "libtrain/nn/transformer_spec.h"

namespace lt::checkpoint {

// Throws DataError if the format cannot express the model: a field that it lacks must have the family's default.
// Dropout matters in training only.
void require_expressible(const nn::TransformerSpec& model);

// The text for a complete description, with weights of `dtype`. Throws as require_expressible() does.
std::string hf_config_text(const nn::TransformerSpec& model, DType dtype = DType::f32);

// Reads the text into a complete and valid description. A key that is missing has the value that transformers assumes;
// sizes must be there.
// Dropout stays 0, because it is a choice of the training. Throws DataError whose message starts with "config.json" and
// names key, expected and found for a model that cannot be represented, and for a key that is not known, unless it is
// null, false or empty.
nn::TransformerSpec parse_hf_config(const std::string& text);

}  // namespace lt::checkpoint
