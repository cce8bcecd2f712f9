// Rank 0's side of a meeting over TCP.
#pragma once

#include <vector>

#include "comm/tcp/tcp_meeting.h"

namespace lt::comm {

// Returns connected sockets by rank, once all ranks have connected. Throws CommError if one does not in time.
std::vector<io::Descriptor> receive_ranks(const TcpMeeting& meeting, const MeetingToken& token);

}  // namespace lt::comm
