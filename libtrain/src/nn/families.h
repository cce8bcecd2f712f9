// Declares the rows of the table of model families. Each is defined in the family's own file.
#pragma once

#include "nn/model_family.h"

namespace lt::nn {

extern const ModelFamily kGpt2, kLlama, kMistral, kQwen2, kQwen3;

}  // namespace lt::nn
