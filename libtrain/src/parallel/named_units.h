// Checks a model's units before an engine is made.
#pragma once

#include "libtrain/nn/module.h"

namespace lt::parallel {

// Throws UsageError unless every parameter belongs to a unit and has a unique name that a checkpoint can hold.
void require_named_units(const nn::Model& model);

}  // namespace lt::parallel
