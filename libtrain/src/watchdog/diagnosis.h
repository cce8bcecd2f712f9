// Finds the fault of a run from the reports of its ranks. A pure function: no sockets, no clocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "watchdog/board.h"

namespace lt::watchdog {

enum class Link : std::uint8_t {
  open,
  closed,  // without a goodbye
  done,    // said goodbye at the end of its run
  failed,  // said goodbye during stack unwinding; it prints the error itself
};

// A rank as an observer knows it.
struct Peer {
  int rank = 0;
  std::string host;
  long pid = 0;
  Link link = Link::open;
  double silent_s = 0;     // since it was last heard from; once it has left, since its goodbye
  std::string state;       // its process's, if the observer can see it: "stopped by a signal"
  bool is_traced = false;  // a debugger holds it, so its silence means nothing
  Board board;             // the last one
};

struct Limits {
  double heartbeat_s = 5, collective_s = 60;
};

enum class Fault : std::uint8_t { gone, silent, mismatch, ended, hang, deadlock };

struct Verdict {
  Fault fault = Fault::hang;
  std::vector<int> ranks;  // those to blame
  std::string message, hint;
};

// Empty if all is well, or may be.
//   gone, silent  a connection closed without a goodbye, or nothing heard for heartbeat_s
//   mismatch      ranks whose calls of the same number in a group differ, once one has waited for heartbeat_s
//   ended         a rank has waited for heartbeat_s for one that said goodbye at least as long ago; both at least 10 s
//                 if that one failed
//   hang          a rank that waits for nobody makes no progress for limit_s(); at least that of a save if it may wait
//                 for a rank that is no peer
//   deadlock      ranks wait for each other
std::optional<Verdict> diagnose(const std::vector<Peer>& peers, const Limits& limits);

// How long a rank may go without progress: patience(phase) * collective_s, and at least ten times the slowest step that
// any rank has seen.
double limit_s(const Board& board, double slowest_step_s, const Limits& limits);

}  // namespace lt::watchdog
