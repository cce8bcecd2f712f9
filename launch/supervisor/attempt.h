// One attempt at a training run: starts the ranks and returns when none of their processes is left on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/child_process.h"
#include "launch/supervisor/output.h"
#include "launch/supervisor/stop_signals.h"

namespace lt::launch {

struct AttemptEnd {
  int code = 0;                  // exit code as in a shell: 128 + signal if a signal ended it
  std::string cause;             // why it ended, in words
  double failed = 0;             // end of the first rank on this host; seconds of monotonic_seconds()
  bool out_of_time = false;      // the ranks were killed at the end of the grace period
  std::optional<int> rank = {};  // the rank that failed; nullopt if that is not certain
};

struct AttemptSpec {
  std::vector<ProcessSpec> processes;  // one launcher, or each rank
  std::string mark;                    // "NAME=value" in the environment of all processes of the attempt
  double grace_s;                      // seconds for the ranks to save after a signal; 0: no limit
  bool has_other_hosts = false;        // other hosts have ranks too
  // Seconds that a launcher gets to end after this host's last rank has ended. The limit applies if a rank has failed,
  // because another host may then be unreachable, or if no other host has ranks. Otherwise the launcher waits for the
  // ranks of other hosts without a limit, and their watchdog judges their progress.
  double launcher_late_s = 15;
};

// Forwards the standard error of all processes to `output`. On the first stop signal, sends SIGUSR1 to the ranks, so
// that they save. On a second one, or at the end of the grace period, kills them. Throws InternalError if a process
// cannot be started or does not end.
AttemptEnd run_attempt(AttemptSpec spec, StopSignals& stop, Output& output);

}  // namespace lt::launch
