// The meeting of ranks over TCP: rank 0 listens, the other ranks connect and greet (tcp_greeting.h). Port scanners may
// connect too, so a peer that does not know the token is a stranger. Strangers cost a bounded number of descriptors and
// no time.
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
  bool one_host = true;  // true if all ranks are on one machine; then `host` may be a loopback address
  TokenSource token;
  std::chrono::milliseconds patience{120'000};  // how long each rank waits for all others
  int listening = -1;  // for rank 0: a descriptor to take over that already listens at `port`; -1: none
};

// Returns connected sockets by rank: rank 0 has one to each other rank; each other rank has one to rank 0. All ranks
// must call it. Throws CommError if the ranks do not meet within `patience`.
std::vector<io::Descriptor> meet_over_tcp(const TcpMeeting& meeting);

}  // namespace lt::comm
