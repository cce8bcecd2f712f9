// What a program does without its ranks, whatever the launcher's variables say.
#pragma once

#include <functional>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::comm {

// A run of this process alone. Does not initialise MPI. Chooses the number of threads as init() does, and ignores
// variables that make no sense.
World world_of_one();

// What makes a run of one where variables of the launcher are left over, as a hint.
std::string run_of_one_hint(const LaunchInfo& info);

// Calls `body` and reports what it throws as run_program() does. Returns the exit code. Only the first of the ranks
// that an MPI launcher started prints: all of them meet the same error.
int run_alone(const std::function<int()>& body);

}  // namespace lt::comm
