// Groups of ranks that meet over TCP, without MPI. Tensors on the CPU go through rank 0, so they are slower than over
// MPI. Tensors on CUDA devices go over NCCL. All groups share the connections of the meeting.
#pragma once

#include <memory>

#include "comm/backend.h"
#include "comm/tcp/tcp_meeting.h"

namespace lt::comm {

// All ranks must call it. Throws CommError if the ranks do not meet in time.
std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting);

// Sets how many bytes of tensors a rank sends at a time, which bounds memory and the length of an exchange. The value
// must be the same on all ranks. Returns the previous value.
Size set_tcp_message_bytes(Size bytes);

}  // namespace lt::comm
