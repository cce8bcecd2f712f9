// Watchdog: notices ranks that died, stopped, hang or make other collectives than their peers, and ends the run with a
// line that says which. A thread in each rank, with connections of its own: neither MPI's nor NCCL's.
#pragma once

#include <memory>
#include <string>

#include "libtrain/comm/world.h"

namespace lt {

struct WatchdogOptions {
  double heartbeat_s = 5;    // silence after which a rank counts as dead
  double collective_s = 60;  // without progress; at least ten times the slowest step, more in phases that take long
  double init_s = 120;       // for all ranks to meet
  std::string folder;        // of the run: log.txt, and what a rank did last in watchdog-rank-R.txt; empty: no files
};

// Alive from its constructor to its destructor, which tells the others that this rank ends, or fails where an exception
// passes. Every rank of the world constructs it; with one rank it does nothing. Throws CommError where ranks cannot
// reach each other. A verdict prints one line, on one rank, and ends the process of every rank with exit code 75; ranks
// that do not meet within init_s end with 4. Where a program works long without its peers it says so with a PhaseScope
// (libtrain/device/progress.h), or makes collective_s larger.
class Watchdog {
 public:
  explicit Watchdog(const World& world, const WatchdogOptions& options = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null: one rank
};

}  // namespace lt
