// How much memory the control groups of this process allow: in a container less than the machine has.
#pragma once

#include <optional>
#include <string>

#include "libtrain/dtype.h"

namespace lt {

// The smallest limit from this process's control group up to the root, of version 1 or 2; none where nothing limits it.
// `root` stands before /proc/self/cgroup and /sys/fs/cgroup.
std::optional<Size> memory_limit_bytes(const std::string& root = "");

}  // namespace lt
