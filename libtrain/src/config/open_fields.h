// Model fields that a complete configuration leaves unset if they have their default.
#pragma once

#include "libtrain/nn/transformer_spec.h"
#include "nn/spec_fields.h"

namespace lt::config {

// True for fields that older configurations lack: the fields that checkpoints may omit, the epsilon of norms and the
// base of rotary positions.
inline bool is_left_open(const nn::SpecField& field) {
  return field.optional || field.name == "norm_eps" || field.name == "rope_base";
}

}  // namespace lt::config
