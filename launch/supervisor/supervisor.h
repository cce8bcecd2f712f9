// The policy of `ltrain launch`: which failures lead to a restart, when, and on how many ranks.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/launcher.h"
#include "libtrain/config/config.h"
#include "libtrain/error.h"

namespace lt::launch {

struct LaunchOptions {
  int ranks = 1;
  int restarts = 3;
  int min_ranks = 0;  // 0: all of them
  std::string hostfile;
  Launcher launcher = Launcher::processes;
  double grace_s = 120;                // time to save after a signal; 0: no limit
  double backoff_s = 1;                // the first wait, which doubles
  std::vector<std::string> arguments;  // "train" and its arguments
};

// Starts the ranks and restarts them until they finish or must not be restarted. `config` must be the configuration
// that the arguments give. Returns the last attempt's code, with 128 and above as 75; 130 after a second SIGINT.
ExitCode supervise(const LaunchOptions& options, const Config& config);

}  // namespace lt::launch
