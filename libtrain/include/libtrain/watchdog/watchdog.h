// Watchdog: finds ranks that are dead, stopped or hung, or that call other collectives than their peers, and ends the
// run with a line that names them. It runs a thread in each rank, with connections separate from MPI's and NCCL's.
#pragma once

#include <memory>
#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/world.h"

namespace LT_API lt {

struct WatchdogOptions {
  double heartbeat_s = 5;  // seconds of silence after which a rank is taken for dead
  // Seconds without progress after which a rank is taken for hung. The limit is at least ten times the slowest step so
  // far, and larger in long phases (libtrain/device/phase.h).
  double collective_s = 60;
  double init_s = 120;  // seconds for all ranks to meet
};

// Watches from its constructor to its destructor. Every rank of the world must construct one; with a single rank it
// does nothing. The constructor waits for all ranks. It throws UsageError for a time that is not finite and above 0,
// and CommError if ranks cannot reach each other. If the ranks do not meet within init_s, the process ends with exit
// code 4. The destructor tells the other ranks that this rank has finished, or failed if it runs during stack
// unwinding.
// When the watchdog finds a fault, one rank prints an error line, a hint and its last collectives on standard error,
// and the processes of all ranks end with exit code 75. A program that works for long without its peers should open a
// PhaseScope (libtrain/device/phase.h) or increase collective_s.
class Watchdog {
 public:
  explicit Watchdog(const World& world, const WatchdogOptions& options = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on, a fault is also written to files: the error line to <folder>/log.txt, and each rank's last collectives
  // to <folder>/watchdog-rank-R.txt. No other run may use the folder from this call to the destructor. Throws
  // InternalError if it is called twice.
  void write_to(std::string folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null: one rank
};

}  // namespace lt
