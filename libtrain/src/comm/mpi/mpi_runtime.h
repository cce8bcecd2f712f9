// The lifetime of MPI in a process.
#pragma once

#include <memory>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::comm {

// The hint for ranks that have neither MPI nor a meeting place.
inline constexpr const char* kLaunchHint =
    "start them with mpirun -n N, srun --mpi=pmix or ltrain launch -n N, or set MASTER_ADDR and MASTER_PORT";

// The library over which this program runs, "Open MPI v4.1.4". Needs no initialised MPI.
std::string mpi_library_version();

// Initialises MPI for `info.size` > 1 ranks. Releasing the last copy finalises it, except during stack unwinding or if
// the program had initialised it itself. Throws CommError without an MPI launcher, if MPI does not see these ranks, or
// if it lacks MPI_THREAD_MULTIPLE.
std::shared_ptr<void> start_mpi(const LaunchInfo& info, int& argc, char**& argv);

// True if a launcher that MPI supports has set the environment.
bool has_mpi_launcher();

// True if such a launcher started this process as a rank other than 0. False if its rank variable is invalid.
bool is_later_mpi_rank();

// Ends all ranks of the run. MPI may wait for the launcher.
[[noreturn]] void abort_mpi(int exit_code);

}  // namespace lt::comm
