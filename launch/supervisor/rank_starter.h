// Starts the ranks of a command, once or several times, and prints what the supervisor says meanwhile.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "launch/supervisor/attempt.h"
#include "launch/supervisor/child_process.h"
#include "launch/supervisor/hosts.h"
#include "launch/supervisor/output.h"
#include "launch/supervisor/stop_signals.h"
#include "launch/supervisor/supervisor.h"

namespace lt::launch {

struct Ranks {
  int count;
  std::vector<Host> hosts;             // of the hostfile; empty without one
  std::vector<std::string> arguments;  // the command and its arguments
  Environment environment;
  std::string devices = {};  // CUDA_VISIBLE_DEVICES of the ranks; empty: unchanged
};

class RankStarter {
 public:
  // `options` must outlive this object. Throws UsageError for an invalid hostfile.
  explicit RankStarter(const LaunchOptions& options);

  // The ranks that the options ask for.
  Ranks all_ranks() const;
  // Starts the ranks and returns when they have ended. `ranks.hosts` may have fewer hosts than all_ranks(). Throws
  // InternalError if a process cannot be started or ended.
  AttemptEnd run(Ranks ranks);

  StopSignals& stop() { return stop_; }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    output_.write(fmt::format("launch: {}\n", fmt::format(format, std::forward<Args>(args)...)));
  }

 private:
  bool uses_other_hosts(const std::vector<Host>& hosts) const;

  const LaunchOptions& options_;
  StopSignals stop_;
  Output output_;
  std::string program_;
  std::vector<Host> hosts_;  // all of the hostfile
};

}  // namespace lt::launch
