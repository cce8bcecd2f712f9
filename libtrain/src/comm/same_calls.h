// Compares the calls of a step on all ranks before it runs: ranks that make their collectives in different orders or
// sizes would wait for each other for ever.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt::comm {

// The first line in which a rank's list differs from that of rank 0; nullopt: no such line.
struct LineDifference {
  std::size_t line;  // from 0
  int rank;
  std::optional<std::string> first, other;  // the line of rank 0, and of `rank`

  // "FIRST, found on rank RANK OTHER", with `none` for a line that is not there.
  std::string text(const char* none) const;
};

// Every rank of the group must call it, and all get the same result; nullopt if the lists are equal. Lines must not
// contain line ends.
std::optional<LineDifference> first_difference(const std::vector<std::string>& lines, const Group& group);

// `calls`: this rank's calls of the step `name`, one line each. Every rank of the group must call it. If the lists
// differ, throws UsageError on all ranks with the first call that differs.
void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group);

}  // namespace lt::comm
