// The policy of `ltrain launch`: which ends of the ranks are followed by a restart, when, on how many ranks.
#pragma once

#include <string>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/train/config.h"
#include "supervisor/launcher.h"

namespace lt::launch {

struct LaunchOptions {
  int ranks = 1;
  int restarts = 3;
  int min_ranks = 0;  // 0: all of them
  std::string hostfile;
  Launcher launcher = Launcher::processes;
  double grace_s = 120;                // for saving after a signal; 0: no limit
  double backoff_s = 1;                // the first wait, which doubles
  std::vector<std::string> arguments;  // "train", and what follows it
};

// Starts the ranks and starts them again, until they are done or are not to be started again. `config` is what the
// arguments say. The code is that of the last attempt, with 128 and above as 75; 130 after a second SIGINT.
ExitCode supervise(const LaunchOptions& options, const Config& config);

}  // namespace lt::launch
