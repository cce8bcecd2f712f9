// The rows of the table of families, each defined in the file of its name.
#pragma once

#include "libtrain/model_family.h"

namespace lt::nn {

extern const ModelFamily kGpt2, kLlama, kMistral, kQwen3;

}  // namespace lt::nn
