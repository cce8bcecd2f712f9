// The lifetime of MPI in a process.
#pragma once

#include <memory>

#include "libtrain/comm/world.h"

namespace lt {

// For ranks that lack MPI.
inline constexpr const char* kLaunchHint =
    "CPU ranks communicate over MPI: start them with mpirun -n N, or srun --mpi=pmix";

// Initialises MPI for `info.size` > 1 ranks. Releasing the last copy finalises it, unless the program had initialised
// it itself. Throws CommError if MPI does not see these ranks.
std::shared_ptr<void> start_mpi(const LaunchInfo& info, int& argc, char**& argv);

// Whether the environment comes from a launcher that MPI knows.
bool has_mpi_launcher();

// Ends all ranks of the run. MPI may wait for the launcher.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace lt
