// Carries the messages of all groups of this process. Rank 0 has a connection to each other rank, the others have one
// to rank 0. A separate thread receives messages and hands them to the threads that wait, so any number of threads may
// be in exchanges of different groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/tcp/tcp_frames.h"
#include "comm/tcp/tcp_socket.h"

namespace lt::comm {

class TcpExchange {
 public:
  virtual ~TcpExchange() = default;
  // Sends a message that has no answer. Drops it if it can no longer be sent.
  virtual void tell(Frame frame) = 0;
  // Sends a message and waits for its answer. Throws LostPeerError if a rank that it needs has gone.
  virtual Frame ask(Frame frame) = 0;
};

// `links` as meet_over_tcp() returns them. On rank 0 the destructor waits up to 15 s for the other ranks to leave,
// because groups without rank 0 may still need it; 1 s during stack unwinding.
std::shared_ptr<TcpExchange> make_tcp_exchange(int rank, std::vector<io::Descriptor> links);

}  // namespace lt::comm
