// The MPI back end, for tensors on the CPU. Reduction is done here and not by MPI, so that its order is fixed.
#pragma once

#include <memory>

#include "comm/backend.h"

namespace lt {

// All ranks of the run; MPI is initialised.
std::shared_ptr<GroupBackend> make_mpi_world_backend();

// Longer messages travel as several, because MPI counts elements in an int. The same value on all ranks; tests lower
// it. Returns the previous one.
Size set_mpi_message_elements(Size elements);

}  // namespace lt
