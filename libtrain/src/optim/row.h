// The requirements on an optimizer's row.
#pragma once

#include <string>

#include "libtrain/optim/optimizer.h"

namespace lt::optim {

// Throws UsageError that names the field if the row is incomplete or invalid.
void require_whole(const Optimizer& row);

// What a number should be that is not 0, or positive, finite, and so in f32 too; empty if it is.
std::string expected_from_0(double value);
// Throws UsageError (component "optim") unless the field's value is 0, or positive, finite, and so in f32 too. `what`
// stands before what is expected.
void require_from_0(const std::string& field, double value, const std::string& what = {});

// Whether weights or states are bf16.
bool rounds_stochastically(const Optimizer& row);

}  // namespace lt::optim
