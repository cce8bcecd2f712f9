// One attempt: from the start of the ranks until none of their processes is left on this host.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/child_process.h"
#include "launch/supervisor/output.h"
#include "launch/supervisor/stop_signals.h"

namespace lt::launch {

struct AttemptEnd {
  int code = 0;              // as in a shell
  std::string cause;         // why it ended, in words
  double failed = 0;         // when the first rank on this host ended, on the clock of monotonic_seconds()
  bool out_of_time = false;  // the ranks were killed at the end of the grace period
};

struct AttemptSpec {
  std::vector<ProcessSpec> processes;  // one launcher, or each rank
  std::string mark;                    // "NAME=value" in the environment of all processes of the attempt
  double grace_s;                      // the ranks' time to save after a signal; 0: no limit
  bool has_other_hosts = false;        // with ranks of the attempt
  // A launcher's time after this host's last rank, if a rank has failed, because another host may be cut off, or if no
  // other host has ranks. Otherwise there is no limit: the launcher waits for the ranks of other hosts, whose watchdog
  // judges their progress.
  double launcher_late_s = 15;
};

// Forwards standard error to `output`. The first signal reaches the ranks as SIGUSR1, so that they save. A second one,
// or the end of the grace period, kills them. Throws InternalError if a process cannot be started or does not end.
AttemptEnd run_attempt(AttemptSpec spec, StopSignals& stop, Output& output);

}  // namespace lt::launch
