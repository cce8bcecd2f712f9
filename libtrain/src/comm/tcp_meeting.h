// Where ranks meet over TCP: rank 0 listens, the others connect and greet (tcp_greeting.h). Whoever does not know the
// token is a stranger: ports are scanned. Strangers cost a bounded number of descriptors and no time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/meeting_token.h"
#include "comm/tcp_socket.h"

namespace lt {

struct TcpMeeting {
  std::string host;  // a name or address of rank 0's machine, at which alone it listens
  int port = 0;
  int rank = 0, size = 1;
  bool one_host = true;  // all ranks on one machine: then it may be a loopback address
  TokenSource token;
  std::chrono::milliseconds patience{120'000};  // of each rank, for all others
};

// Connected sockets by rank: rank 0 has one to each other rank, the others have one to rank 0. All ranks call it;
// throws CommError where they do not come together.
std::vector<Descriptor> meet_over_tcp(const TcpMeeting& meeting);

}  // namespace lt
