// The MPI back end, for tensors on the CPU.
#pragma once

#include <memory>

#include "comm/message_group.h"

namespace lt::comm {

// The group of all ranks of the run. MPI must be initialised.
std::shared_ptr<GroupBackend> make_mpi_world_backend();

// Sets the largest message in elements; longer ones are split, because MPI counts elements in an int. The value must be
// the same on all ranks. Returns the previous value.
Size set_mpi_message_elements(Size elements);

}  // namespace lt::comm
