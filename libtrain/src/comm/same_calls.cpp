// Ranks compare hashes of their lists, and exchange the lists only if hashes differ.
#include "comm/same_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/crc32c.h"
#include "io/lines.h"
#include "libtrain/error.h"

namespace lt::comm {

std::string LineDifference::text(const char* none) const {
  return fmt::format("{}, found on rank {} {}", first.value_or(none), rank, other.value_or(none));
}

std::optional<LineDifference> first_difference(const std::vector<std::string>& lines, const Group& group) {
  const std::string text = fmt::format("{}\n", fmt::join(lines, "\n"));
  const auto hashes = group.all_gather_bytes(io::crc_text(io::crc32c(0, text.data(), text.size())));
  const auto other =
      std::find_if(hashes.begin(), hashes.end(), [&](const std::string& hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return std::nullopt;
  const auto rank = static_cast<int>(other - hashes.begin());
  const auto first = io::split_lines(group.broadcast_bytes(text, 0)),
             second = io::split_lines(group.broadcast_bytes(text, rank));
  std::size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  const auto line_of = [i](const std::vector<std::string>& all) {
    return i < all.size() ? std::optional(all[i]) : std::nullopt;
  };
  return LineDifference{i, rank, line_of(first), line_of(second)};
}

void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group) {
  const std::optional<LineDifference> found = first_difference(calls, group);
  if (!found) return;
  constexpr const char* kNone = "no further collective";
  throw UsageError("comm",
                   fmt::format("collective {} of a {}: expected that of rank 0 on all ranks, {}", found->line + 1, name,
                               found->text(kNone)),
                   "ranks make the same collectives in the same order and sizes: model and options must be alike");
}

}  // namespace lt::comm
