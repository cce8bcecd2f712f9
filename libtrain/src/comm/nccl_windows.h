// Memory for gathers over NCCL: ncclMemAlloc() blocks that are symmetric windows of one communicator. Its all-gathers
// then copy straight from rank to rank, with fewer of the device's multiprocessors than through NCCL's buffers.
// Reductions run on other communicators, so they see no windows.
#pragma once

#include <memory>

#include "comm/nccl_communicator.h"

namespace lt {

// Tries whether all ranks can have windows. Where they can, `communicator` becomes a new one, a child of what it was,
// whose windows they are. All ranks must call it at the same time.
GatherMemory make_gather_memory(std::shared_ptr<GroupBackend> control, std::shared_ptr<NcclCommunicator>& communicator,
                                Device device);

}  // namespace lt
