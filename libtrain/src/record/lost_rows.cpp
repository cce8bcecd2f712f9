// Writes the reports of lost rows.
#include "record/lost_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "record/short_text.h"

namespace lt::recorder {
namespace {

void warn(const std::string& what) {
  const std::string line = "warning: [record] " + what + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void add_to(std::optional<LostRows::Gap>& gap, Size step, Size rows) {
  if (!gap) gap = LostRows::Gap{0, step, step};
  gap->rows += rows, gap->last_step = std::max(gap->last_step, step);
}

}  // namespace

LostRows::~LostRows() {
  if (!all_) return;
  warn(fmt::format("{}: {} between steps {} and {} could not be written", file_, counted(all_->rows, "row"),
                   all_->first_step, all_->last_step));
}

void LostRows::failed(const Error& error, Size step, Size rows) {
  if (rows == 0) {
    if (!std::exchange(is_sync_told_, true)) warn(fmt::format("{}; training continues", error.what()));
    return;
  }
  add_to(gap_, step, rows), add_to(all_, step, rows);
  if (std::exchange(is_told_, true)) return;
  warn(fmt::format("{}; training continues, rows from step {} on are lost", error.what(), step));
}

}  // namespace lt::recorder
