// The check of a model's units that every engine makes.
#pragma once

#include "libtrain/nn/module.h"

namespace lt::parallel {

// Throws UsageError unless every parameter belongs to a unit and has a name of its own that a checkpoint can hold.
void require_named_units(const nn::Model& model);

}  // namespace lt::parallel
