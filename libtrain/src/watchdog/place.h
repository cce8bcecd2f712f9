// Where a rank runs, and what its host says of its process.
#pragma once

#include <string>
#include <vector>

namespace lt::watchdog {

struct Place {
  std::string host;
  long pid = 0;
  std::string machine;  // the same where a loopback address is
  std::string pids;     // the same where process numbers mean the same processes
};
Place own_place();

// Addresses of this host's interfaces that are up, as numbers, without loopback and link-local ones.
std::vector<std::string> own_addresses();

// What /proc says of a process of this machine: "stopped by a signal"; empty: nothing of note.
struct ProcessState {
  std::string text;
  bool is_traced = false;  // by a debugger
};
ProcessState process_state(long pid);

}  // namespace lt::watchdog
