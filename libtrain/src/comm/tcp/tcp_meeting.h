// The meeting of ranks over TCP: rank 0 listens, the others connect and greet (tcp_greeting.h). Ports are scanned, so
// whoever does not know the token is a stranger. Strangers cost a bounded number of descriptors and no time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/tcp/meeting_token.h"
#include "comm/tcp/tcp_socket.h"

namespace lt::comm {

struct TcpMeeting {
  std::string host;  // a name or address of rank 0's machine; it listens only there
  int port = 0;
  int rank = 0, size = 1;
  bool one_host = true;  // all ranks on one machine, so the host may be a loopback address
  TokenSource token;
  std::chrono::milliseconds patience{120'000};  // how long each rank waits for all others
  int listening = -1;  // for rank 0: a descriptor that listens at the port already, which it takes over; -1: none
};

// Returns connected sockets by rank: rank 0 has one to each other rank, the others have one to rank 0. All ranks must
// call it. Throws CommError if they do not come together.
std::vector<io::Descriptor> meet_over_tcp(const TcpMeeting& meeting);

}  // namespace lt::comm
