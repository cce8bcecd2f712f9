// Groups of ranks that meet over TCP, without MPI. Tensors on the CPU pass through rank 0, so they are slower than over
// MPI; those on CUDA devices travel over NCCL. All groups share the connections of the meeting.
#pragma once

#include <memory>

#include "comm/backend.h"
#include "comm/tcp/tcp_meeting.h"

namespace lt::comm {

// All ranks must call it. Throws CommError if they do not come together.
std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting);

// A rank sends at most this many bytes of tensors at a time, so that memory stays small and no exchange is too long.
// The value must be the same on all ranks; tests lower it. Returns the previous one.
Size set_tcp_message_bytes(Size bytes);

}  // namespace lt::comm
