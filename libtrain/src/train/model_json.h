// The description of a model as a checkpoint keeps it.
#pragma once

#include <string>

#include "libtrain/models.h"

namespace lt {

// The description of a model as a checkpoint keeps it (a JSON object), with the length it was trained on; and back.
// Throws DataError.
std::string to_json(const nn::TransformerSpec& spec, Size seq);
struct ModelDescription {
  nn::TransformerSpec spec;
  Size seq = 0;
};
ModelDescription model_from_json(const std::string& text);

}  // namespace lt
