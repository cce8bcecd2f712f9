// Compares the calls of a step on all ranks before it runs: ranks that make their collectives in different orders or
// sizes would wait for each other for ever.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt {

// `calls`: this rank's calls of the step `name`, one line each. Every rank of the group must call it. If the lists
// differ, throws UsageError on all ranks with the first call that differs.
void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group);

}  // namespace lt
