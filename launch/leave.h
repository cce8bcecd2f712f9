// How a failed run ends: what is printed, by whom, and with which exit code.
#pragma once

#include <exception>
#include <string>

#include "libtrain/error.h"
#include "libtrain/world.h"

namespace lt::launch {

// "error: [part] rank 2: what\nhint: hint\n". rank < 0 is left out, as is an empty hint.
std::string error_text(const Error& error, int rank);

// Reports `failure` and returns the exit code that main() must return at once; does not return where the run has to be
// aborted. An error that all ranks share is printed by rank 0 while the others wait, with a deadline.
int leave(const World& world, const std::exception_ptr& failure);

// For a failure of init(), before which no rank can speak to another.
int leave_without_world(const Error& failure);

}  // namespace lt::launch
