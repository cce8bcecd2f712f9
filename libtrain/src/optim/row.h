// What an optimizer's row must say.
#pragma once

#include "libtrain/optim.h"

namespace lt {

// Throws UsageError naming the field.
void require_whole(const Optimizer& row);

// Whether weights or states are bf16.
bool rounds_stochastically(const Optimizer& row);

// Of the weights that the optimizer changes where the compute dtype is `compute`. Throws UsageError for a row without
// masters and a `compute` other than bf16.
DType weight_dtype(const Optimizer& row, DType compute);

}  // namespace lt
