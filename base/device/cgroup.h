// The control groups of this process, versions 1 and 2. Containers and batch systems set their limits there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::device {

// Returns the folders of the process's own group and of its ancestors, up to the outermost visible one. Any of them may
// hold a limit. Version 1 has separate folders per controller ("cpu", "memory"), selected by `controller`; the folders
// of version 2 follow. Empty without control groups. `root` is the folder that holds /proc and /sys.
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

// A limit on processor time, expressed as a number of cores.
struct CpuQuota {
  std::string group;  // identifies the group on this kernel, across containers too
  double cores;
};

// Returns the smallest memory limit; nullopt if there is no limit.
std::optional<Size> memory_limit_bytes(const std::filesystem::path& root = "/");
// Returns the smallest remainder of a memory limit: the limit less what the group uses, without files that the kernel
// would drop from its cache; nullopt if there is no limit.
std::optional<Size> memory_left_bytes(const std::filesystem::path& root = "/");

// Returns all limits of this process on processor time.
std::vector<CpuQuota> cpu_quotas(const std::filesystem::path& root = "/");

}  // namespace lt::device
