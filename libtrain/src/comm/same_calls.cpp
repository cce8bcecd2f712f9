// Ranks compare hashes of their lists, and exchange the lists only if hashes differ.
#include "comm/same_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/crc32c.h"
#include "io/lines.h"
#include "libtrain/error.h"

namespace lt {
namespace {

std::string line_at(const std::vector<std::string>& lines, std::size_t i) {
  return i < lines.size() ? lines[i] : "no further collective";
}

}  // namespace

void require_same_calls(const std::string& name, const std::vector<std::string>& calls, const Group& group) {
  const std::string text = fmt::format("{}\n", fmt::join(calls, "\n"));
  const auto hashes = group.all_gather_bytes(crc_text(crc32c(0, text.data(), text.size())));
  const auto other =
      std::find_if(hashes.begin(), hashes.end(), [&](const std::string& hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  const auto rank = static_cast<int>(other - hashes.begin());
  const auto first = split_lines(group.broadcast_bytes(text, 0)),
             second = split_lines(group.broadcast_bytes(text, rank));
  std::size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  throw UsageError("comm",
                   fmt::format("collective {} of a {}: expected that of rank 0 on all ranks, {}, found on rank {} {}",
                               i + 1, name, line_at(first, i), rank, line_at(second, i)),
                   "ranks make the same collectives in the same order and sizes: model and options must be alike");
}

}  // namespace lt
