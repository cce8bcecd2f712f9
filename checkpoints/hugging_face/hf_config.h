// Converts a model's description to the config.json of a Hugging Face folder and back.
#pragma once

#include <string>

#include "libtrain/nn/transformer_spec.h"

namespace lt::checkpoint {

// Throws DataError if the format cannot express the model: each field that the format lacks must have the family's
// default. Dropout is exempt, because it matters only in training.
void require_expressible(const nn::TransformerSpec& model);

// Returns the text for a complete description, with weights of `dtype`. Throws like require_expressible().
std::string hf_config_text(const nn::TransformerSpec& model, DType dtype = DType::f32);

// Parses the text into a complete and valid description. A missing key has the value that transformers assumes; sizes
// must be present. Dropout stays 0, because it is a setting of training.
// Throws DataError if the model cannot be represented, or if an unknown key is not null, false or empty. The message
// starts with "config.json" and names key, expected and found.
nn::TransformerSpec parse_hf_config(const std::string& text);

}  // namespace lt::checkpoint
