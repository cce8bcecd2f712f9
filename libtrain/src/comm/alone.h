// What a program does without its ranks, whatever the launcher's variables say.
#pragma once

#include <functional>

#include "libtrain/comm/world.h"

namespace lt {

// A run of this process alone. Does not initialise MPI. Chooses the number of threads as init() does, and ignores
// variables that make no sense.
World world_of_one();

// Calls `body` and reports what it throws as run_program() does. Returns the exit code. Only the first of the ranks
// that an MPI launcher started prints: all of them meet the same error.
int run_alone(const std::function<int()>& body);

}  // namespace lt
