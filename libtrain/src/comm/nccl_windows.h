// Memory for gathers over NCCL: ncclMemAlloc() blocks that are symmetric windows of one communicator. Its all-gathers
// then copy straight from rank to rank, on fewer multiprocessors than through NCCL's buffers. Reductions run on other
// communicators, so they see no windows.
#pragma once

#include <memory>

#include "comm/nccl_communicator.h"

namespace lt {

// Tries whether all ranks can have windows. If so, `communicator` is replaced by a child of it that owns the windows.
// All ranks must call it at the same time.
GatherMemory make_gather_memory(std::shared_ptr<GroupBackend> control, std::shared_ptr<NcclCommunicator>& communicator,
                                Device device);

}  // namespace lt
