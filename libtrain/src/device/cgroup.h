// The control groups of this process, versions 1 and 2: a container or a batch system writes its limits there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt {

// The folders of the process's own group and of the groups around it, up to the outermost visible one; any of them may
// hold a limit. In version 1, `controller` ("cpu", "memory") selects the folders, since each controller has separate
// ones; the folders of version 2 follow. Empty without control groups. `root` is for tests.
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

// A limit on processor time, expressed as a number of cores.
struct CpuQuota {
  std::string group;  // identifies the group among those of one kernel, across containers too
  double cores;
};

// The smallest limit on memory; nullopt if nothing limits it.
std::optional<Size> memory_limit_bytes(const std::filesystem::path& root = "/");

// All limits of this process on processor time.
std::vector<CpuQuota> cpu_quotas(const std::filesystem::path& root = "/");

}  // namespace lt
