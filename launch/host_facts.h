// What the system says about this host: file systems, limits of a process, the clock, devices.
#pragma once

#include <optional>
#include <string>

#include "libtrain/dtype.h"

namespace lt::launch {

struct FileSystem {
  std::string folder = {};            // the nearest folder of the path that exists
  std::string kind = {};              // "ext4", "nfs"; empty: unknown
  std::optional<Size> bytes = {};     // nullopt: the file system does not say
  Size free_bytes = 0;                // for this user
  bool is_network = false;            // its disk is another host's
  bool is_memory = false;             // its files are in this host's memory
  std::string why_not_writable = {};  // why no file can be created in `folder`; empty: one can
};
// Creates a file in the folder and removes it again. Never throws, but may wait for a file system that is away.
FileSystem file_system_of(const std::string& path);

// A limit of setrlimit(); nullopt: unlimited.
struct ResourceLimit {
  std::optional<Size> now, most;
};
ResourceLimit resource_limit(int resource);

struct ClockState {
  bool is_known = false;         // false: the kernel does not say
  bool is_synchronised = false;  // something disciplines the wall clock
  double error_ms = 0;           // at most, as the kernel estimates it
};
ClockState clock_state();

// True if a driver shows InfiniBand devices.
bool has_infiniband();
// The number of NVIDIA GPUs that the kernel's driver knows, whether this build can use them or not.
int gpus_of_kernel();
// True if the kernel shows this process an NVIDIA GPU. Does not open it.
bool has_gpu();

}  // namespace lt::launch
