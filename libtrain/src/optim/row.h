// The requirements on an optimizer's row.
#pragma once

#include "libtrain/optim/optimizer.h"

namespace lt {

// Throws UsageError that names the field if the row is incomplete or invalid.
void require_whole(const Optimizer& row);

// Whether weights or states are bf16.
bool rounds_stochastically(const Optimizer& row);

}  // namespace lt
