// MPI from its initialisation to its end.
#pragma once

#include <memory>

#include "libtrain/comm/world.h"

namespace lt {

// Initialises MPI for `info.size` > 1 ranks; the end of the last copy finalises it, unless the program had initialised
// it by itself. Throws CommError where MPI does not see these ranks.
std::shared_ptr<void> start_mpi(const LaunchInfo& info, int& argc, char**& argv);

// Whether the environment is of a launcher that MPI knows.
bool has_mpi_launcher();

// Ends all ranks of the run. MPI may wait for the launcher.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace lt
