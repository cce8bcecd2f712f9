// Compares the calls of a step on all ranks before the step runs. Ranks that call collectives in different orders or
// sizes would wait for each other for ever.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"

namespace lt::comm {

// The first line in which the list of rank `rank` differs from rank 0's list.
struct LineDifference {
  std::size_t line;  // from 0
  int rank;
  std::optional<std::string> first, other;  // the line on rank 0, and on `rank`; nullopt: the list has no such line

  // "FIRST, found on rank RANK OTHER", with the text `none` for a missing line.
  std::string text(const char* none) const;
};

// Returns nullopt if the lists are equal on all ranks. Every rank of the group must call it; all get the same result.
// Lines must not contain line ends.
std::optional<LineDifference> first_difference(const std::vector<std::string>& lines, const Group& group);

// `calls`: this rank's calls of the step `name`, one line each. Every rank of the group must call it. If the lists
// differ, throws UsageError on all ranks with the first call that differs.
void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group);

}  // namespace lt::comm
