// The messages of all groups of this process, over one connection: of rank 0 to all others, of the others to rank 0. A
// thread of its own takes what comes and hands it to whoever waits, so any number of threads may be in exchanges of
// different groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/tcp_frames.h"
#include "comm/tcp_socket.h"

namespace lt {

class TcpExchange {
 public:
  virtual ~TcpExchange() = default;
  // Sends a message that has no answer. What cannot be sent any more is dropped.
  virtual void tell(Frame frame) = 0;
  // Sends one and waits for its answer. Throws CommError where a rank that it needs has gone.
  virtual Frame ask(Frame frame) = 0;
};

// `links` as meet_over_tcp() returns them. The end of rank 0's waits up to 15 s for the others', because their groups
// go on without it; 1 s during stack unwinding.
std::shared_ptr<TcpExchange> make_tcp_exchange(int rank, std::vector<Descriptor> links);

}  // namespace lt
