// What an optimizer's row must say.
#pragma once

#include "libtrain/optim/optimizer.h"

namespace lt {

// Throws UsageError naming the field.
void require_whole(const Optimizer& row);

// Whether weights or states are bf16.
bool rounds_stochastically(const Optimizer& row);

}  // namespace lt
