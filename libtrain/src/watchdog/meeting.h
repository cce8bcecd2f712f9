// How the ranks' watchdogs find each other: hosts, two monitors, a token, connections.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "watchdog/channel.h"
#include "watchdog/place.h"

namespace lt::watchdog {

struct Meeting {
  int rank = 0;
  std::vector<Place> places;  // by rank
  std::vector<int> monitors;  // rank 0, and one that watches rank 0, on another host if there is one
  std::string token;
  std::vector<std::string> addresses;  // the monitors': "port address address ..."
  std::optional<Listener> listener;    // on monitors only

  bool is_monitor(int r) const { return r == monitors[0] || r == monitors[1]; }
  bool is_local(int r) const;  // this rank can inspect its process
};

// Every rank of the group must call it; the group has two ranks or more.
Meeting meet(const Group& group);

// Connects this rank to a monitor and waits for its welcome. Throws CommError.
Channel connect_to(const Meeting& meeting, int monitor, Clock::time_point deadline);
// The rank that a greeting with the right token names; otherwise -1.
int greeted_by(const Meeting& meeting, const std::string& greeting);

}  // namespace lt::watchdog
