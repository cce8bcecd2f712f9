// Watchdog: notices ranks that died, stopped, hang or call different collectives than their peers, and ends the run
// with a line that names them. Runs a thread in each rank, with connections separate from MPI's and NCCL's.
#pragma once

#include <memory>
#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/world.h"

namespace LT_API lt {

struct WatchdogOptions {
  double heartbeat_s = 5;    // silence after which a rank counts as dead
  double collective_s = 60;  // without progress; at least ten times the slowest step, more in phases that take long
  double init_s = 120;       // for all ranks to meet
};

// Active from its constructor to its destructor, which tells the other ranks that this rank ends, or fails if it runs
// during stack unwinding. Every rank of the world must construct one; with a single rank it does nothing. Throws
// UsageError for times that are not finite and above 0, and CommError if ranks cannot reach each other. A verdict
// prints one line, on one rank, and ends the process of every rank with exit code 75. Ranks that do not meet within
// init_s end with 4. A program that works long without its peers should open a PhaseScope (libtrain/device/phase.h) or
// increase collective_s.
class Watchdog {
 public:
  explicit Watchdog(const World& world, const WatchdogOptions& options = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A verdict also goes to files from now on: its line to <folder>/log.txt, each rank's last collectives to
  // <folder>/watchdog-rank-R.txt. Call it once, when no other run is at work in the folder, and keep others out until
  // the destructor has run.
  void write_to(std::string folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null: one rank
};

}  // namespace lt
