// Ranks that meet over TCP, without MPI: for small data and, with NCCL, for tensors on CUDA devices. Tensors on the CPU
// it does not take. All groups share the connections of the meeting.
#pragma once

#include <memory>

#include "comm/backend.h"
#include "comm/tcp_meeting.h"

namespace lt {

// All ranks call it; throws CommError where they do not come together.
std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting);

}  // namespace lt
