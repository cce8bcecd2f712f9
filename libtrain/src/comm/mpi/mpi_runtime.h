// The lifetime of MPI in a process.
#pragma once

#include <memory>

#include "libtrain/comm/world.h"

namespace lt::comm {

// For ranks that have neither MPI nor a place to meet.
inline constexpr const char* kLaunchHint =
    "start them with mpirun -n N, srun --mpi=pmix or ltrain launch -n N, or set MASTER_ADDR and MASTER_PORT";

// Initialises MPI for `info.size` > 1 ranks. Releasing the last copy finalises it, unless the program had initialised
// it itself. Throws CommError if MPI does not see these ranks.
std::shared_ptr<void> start_mpi(const LaunchInfo& info, int& argc, char**& argv);

// Whether the environment comes from a launcher that MPI knows.
bool has_mpi_launcher();

// Whether such a launcher started this process as another rank than the first. False for a value that makes no sense.
bool is_later_mpi_rank();

// Ends all ranks of the run. MPI may wait for the launcher.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace lt::comm
