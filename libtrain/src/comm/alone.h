// Runs a program in this process alone, even if launcher variables are set.
#pragma once

#include <functional>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::comm {

// Returns a run of one rank: this process. Does not initialise MPI. Chooses the number of threads as init() does, but
// ignores invalid variables.
World world_of_one();

// Returns the hint of an error: how to start a run of one rank if launcher variables are left over.
std::string run_of_one_hint(const LaunchInfo& info);

// Calls `body` and reports its exception as run_program() does. Returns the exit code. If an MPI launcher started
// several ranks, only the first one prints, because all ranks hit the same error.
int run_alone(const std::function<int()>& body);

}  // namespace lt::comm
