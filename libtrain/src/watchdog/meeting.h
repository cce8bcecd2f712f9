// How the ranks' watchdogs find each other: hosts, two monitors, a token, connections.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/group.h"
#include "watchdog/channel.h"

namespace lt::watchdog {

// Where a rank runs.
struct Place {
  std::string host;
  long pid = 0;
  std::string machine;  // the same where a loopback address is
  std::string pids;     // the same where process numbers mean the same processes
};
Place own_place();

// What /proc says of a process of this machine: "stopped by a signal"; empty: nothing of note.
struct ProcessState {
  std::string text;
  bool is_traced = false;  // by a debugger
};
ProcessState process_state(long pid);

struct Meeting {
  int rank = 0;
  std::vector<Place> places;  // by rank
  std::vector<int> monitors;  // rank 0, and one that watches rank 0: on another host where there is one
  std::string token;
  std::vector<std::string> addresses;  // of the monitors: "port address address ..."
  std::optional<Listener> listener;    // of a monitor

  bool is_monitor(int r) const { return r == monitors[0] || r == monitors[1]; }
  bool is_local(int r) const;  // its process can be looked at
};

// All ranks of the group call it, two or more.
Meeting meet(const Group& group);

// This rank's connection to a monitor that has welcomed it. Throws CommError.
Channel connect_to(const Meeting& meeting, int monitor, Clock::time_point deadline);
// The rank that a greeting with the right token names; -1: it is none.
int greeted_by(const Meeting& meeting, const std::string& greeting);

}  // namespace lt::watchdog
