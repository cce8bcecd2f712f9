// Ranks that make their collectives in different orders or sizes would wait for each other for ever, so the calls of a
// step are compared before it runs.
#pragma once

#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt {

// `calls` are those of the step `name`, a line each, on this rank. Every rank of the group calls it. Throws
// UsageError on all ranks where they differ, with the first call that does.
void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group);

}  // namespace lt
