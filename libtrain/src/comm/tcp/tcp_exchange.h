// Carries the messages of all groups of this process. Rank 0 has a connection to each other rank; each other rank has
// one to rank 0. A separate thread receives messages and hands them to the waiting threads, so several threads may
// exchange messages of different groups at once.
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
  // Sends a message and waits for its answer. Throws BrokenCommError if the exchange fails, for example because it
  // needs a rank that is gone.
  virtual Frame ask(Frame frame) = 0;
};

// `links`: the result of meet_over_tcp(). On rank 0 the destructor waits for the other ranks to disconnect, because
// groups without rank 0 may still need it: up to 15 s, or 1 s during stack unwinding.
std::shared_ptr<TcpExchange> make_tcp_exchange(int rank, std::vector<io::Descriptor> links);

}  // namespace lt::comm
