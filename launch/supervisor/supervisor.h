// The policy of `ltrain launch`: which ends lead to a restart, when, and on how many ranks.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/launcher.h"
#include "libtrain/config/config.h"
#include "libtrain/error.h"

namespace lt::launch {

struct LaunchOptions {
  int ranks = 1;
  int ranks_per_host = 0;  // 0: the launcher decides; else `ranks` is this for each host
  int restarts = 3;        // maximum number
  int min_ranks = 0;       // fewest ranks to restart with; 0: `ranks`
  std::string hostfile;
  Launcher launcher = Launcher::processes;
  double grace_s = 120;                // seconds to save after a signal; 0: no limit
  double backoff_s = 1;                // seconds to wait if a restarted attempt saved nothing new; doubles
  std::vector<std::string> arguments;  // the command and its arguments
};

// Starts the ranks of `train` and restarts them until they finish, stop by themselves, or must not be restarted.
// `config` must be the configuration that options.arguments give. Returns the last attempt's exit code, but 75 for
// codes from 128 on, and 130 after a second SIGINT. Throws UsageError for an invalid hostfile, InternalError if a
// process cannot be started or ended.
ExitCode supervise(const LaunchOptions& options, const Config& config);

// Starts the ranks of a command that has no run to continue, once. Returns its exit code; if a signal stopped it, 128 +
// the signal. Throws as supervise() does.
ExitCode run_once(const LaunchOptions& options);

}  // namespace lt::launch
