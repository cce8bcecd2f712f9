// The control groups of this process: where a container or a batch system writes its limits, in version 1 and 2.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt {

// The folders of the process's own group and of those around it, up to the outermost that can be seen; a limit stands
// in any of them. `controller` ("cpu", "memory") counts in version 1, where each has folders of its own; of version 2
// the folders follow. Empty where there are none. `root` is for tests.
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

// A limit on processor time, as the number of cores that would take as much.
struct CpuQuota {
  std::string group;  // tells the groups of one kernel apart, also from within different containers
  double cores;
};

// The smallest limit on memory; none where nothing limits it.
std::optional<Size> memory_limit_bytes(const std::filesystem::path& root = "/");

// All that hold for this process.
std::vector<CpuQuota> cpu_quotas(const std::filesystem::path& root = "/");

}  // namespace lt
