// The meeting of the ranks' watchdogs: hosts, two monitors, their tokens, connections.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/tcp/tcp_greeting.h"
#include "comm/tcp/tcp_socket.h"
#include "libtrain/comm/group.h"
#include "watchdog/channel.h"
#include "watchdog/rank_process.h"

namespace lt::watchdog {

struct Meeting {
  int rank = 0;
  std::vector<RankProcess> processes;         // by rank
  std::vector<int> monitors;                  // rank 0, and a rank that watches rank 0, on another host if possible
  std::vector<comm::MeetingToken> tokens;     // one for each monitor, so that a greeting cannot be relayed to the other
  std::vector<std::string> addresses;         // of each monitor: "port address address ..."
  std::optional<comm::TcpListener> listener;  // on monitors only

  int size() const { return static_cast<int>(processes.size()); }
  bool is_monitor(int r) const { return r == monitors[0] || r == monitors[1]; }
  const comm::MeetingToken& token_of(int monitor) const { return tokens[monitor == monitors[0] ? 0 : 1]; }
  bool is_local(int r) const;  // true if this rank can inspect the process of rank r
};

// Every rank of the group must call it. The group must have at least two ranks.
Meeting meet(const Group& group);

// Connects this rank to a monitor and waits for its welcome. Another process at the address does not learn the token.
// Throws CommError if there is no welcome by the deadline.
Channel connect_to(const Meeting& meeting, int monitor, Clock::time_point deadline);

}  // namespace lt::watchdog
