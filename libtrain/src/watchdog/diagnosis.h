// Finds the fault of a run from the statuses of its ranks. A pure function: it uses no sockets and no clocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "watchdog/rank_status.h"

namespace lt::watchdog {

enum class Link : std::uint8_t {
  open,
  closed,  // without a goodbye
  done,    // said goodbye at the end of its run
  failed,  // said goodbye during stack unwinding; the rank prints its own error
};

// An observer's knowledge of one rank.
struct Peer {
  int rank = 0;
  std::string host;
  long pid = 0;
  Link link = Link::open;
  double silent_s = 0;     // seconds since its last message, or since its goodbye if it has left
  std::string state;       // of its process, if the observer can see it: "stopped by a signal"; otherwise empty
  bool is_traced = false;  // true: a debugger holds it, so its silence is not a fault
  RankStatus status;       // last status
};

struct Limits {
  double heartbeat_s = 5, collective_s = 60;
};

enum class Fault : std::uint8_t { gone, silent, mismatch, ended, hang, deadlock };

struct Verdict {
  Fault fault = Fault::hang;
  std::vector<int> ranks;  // the ranks to blame
  std::string message, hint;
};

// Returns nullopt if there is no fault, or it is not certain yet. Faults:
//   gone, silent  a connection closed without a goodbye, or no message for heartbeat_s
//   mismatch      ranks whose calls of the same number in a group differ, once one has waited for heartbeat_s
//   ended         a rank has waited for heartbeat_s for a rank whose goodbye was at least as long ago; if that rank
//                 failed, both times are at least 10 s
//   hang          a rank that waits for no other rank makes no progress for limit_s(); at least for the limit of a save
//                 if it may wait for a rank outside `peers`
//   deadlock      ranks wait for each other
std::optional<Verdict> diagnose(const std::vector<Peer>& peers, const Limits& limits);

// How long a rank may be without progress, in seconds: patience(phase) * collective_s, and at least ten times
// `slowest_step_s`, the slowest step of any rank.
double limit_s(const RankStatus& status, double slowest_step_s, const Limits& limits);

}  // namespace lt::watchdog
