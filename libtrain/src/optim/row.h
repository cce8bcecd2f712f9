// The validity checks of an optimizer's row.
#pragma once

#include <string>

#include "libtrain/optim/optimizer.h"

namespace lt::optim {

// Throws UsageError that names the field if the row is incomplete or invalid.
void require_whole(const Optimizer& row);

// Returns empty text if `value` is 0, or if it is positive and finite and stays so when rounded to f32. Otherwise
// returns a text that says what was expected.
std::string expected_from_0(double value);
// Throws UsageError (component "optim") that names the field if expected_from_0() is not empty. `what` is put before
// that text.
void require_from_0(const std::string& field, double value, const std::string& what = {});

// True if the weights that the row updates, or any of its states, are bf16.
bool rounds_stochastically(const Optimizer& row);

}  // namespace lt::optim
