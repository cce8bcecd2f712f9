// Fields of a model that a resolved configuration leaves unset where they have their default.
#pragma once

#include "libtrain/nn/transformer_spec.h"
#include "nn/spec_fields.h"

namespace lt {

// Those that came after the first configurations: the fields that checkpoints may leave out, the epsilon of norms and
// the base of rotary positions.
inline bool is_left_open(const nn::SpecField& field) {
  return field.optional || field.name == "norm_eps" || field.name == "rope_base";
}

}  // namespace lt
