// Groups of ranks that meet over TCP, without MPI: for small data and, with NCCL, for tensors on CUDA devices. They
// take no tensors on the CPU. All groups share the connections of the meeting.
#pragma once

#include <memory>

#include "comm/backend.h"
#include "comm/tcp_meeting.h"

namespace lt {

// All ranks must call it. Throws CommError if they do not come together.
std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting);

}  // namespace lt
