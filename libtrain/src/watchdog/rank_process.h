// A rank's host and process, and the state of a process from /proc.
#pragma once

#include <string>
#include <vector>

namespace lt::watchdog {

struct RankProcess {
  std::string host;
  long pid = 0;
  std::string machine;  // equal for ranks that share a loopback address
  std::string pids;     // equal for ranks that share process numbers
};
RankProcess own_process();

// Returns the numeric addresses of this host's active interfaces, without loopback and link-local ones.
std::vector<std::string> own_addresses();

// The state of a process on this machine, from /proc. `text`: "stopped by a signal"; empty if nothing is unusual.
struct ProcessState {
  std::string text;
  bool is_traced = false;  // by a debugger
};
ProcessState process_state(long pid);

}  // namespace lt::watchdog
