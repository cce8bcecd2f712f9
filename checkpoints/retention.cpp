// What happens beside the checkpoints once a new one stands.
#include "retention.h"

#include <algorithm>

#include "files.h"
#include "layout.h"
#include "verify.h"
#include "whole.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

// The last time that `path`, or anything in it, changed.
fs::file_time_type last_change(const fs::path& path) {
  fs::file_time_type latest = fs::last_write_time(path);
  if (!fs::is_directory(path)) return latest;
  for (const auto& entry : fs::recursive_directory_iterator(path)) latest = std::max(latest, entry.last_write_time());
  return latest;
}

}  // namespace

void write_latest(const fs::path& directory, const std::string& name, const std::string& run_id) {
  const fs::path temporary = directory / (std::string(kLatestName) + ".tmp-" + run_id);
  try {
    write_durably(temporary, name + "\n");
    rename_durably(temporary, directory / kLatestName);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void make_room(const fs::path& directory, const std::string& newest, int keep, const std::string& run_id) {
  std::vector<fs::path> valid;  // oldest first, without the newest; first by sizes, which costs next to nothing
  for (const fs::path& folder : step_folders(directory.string())) {
    if (folder.filename() != newest && problems_of(folder, false).empty()) valid.push_back(folder);
  }
  const std::size_t others = static_cast<std::size_t>(std::max(keep, 2)) - 1;
  if (valid.size() > others) std::erase_if(valid, [](const fs::path& folder) { return !is_whole(folder); });
  for (std::size_t i = 0; i + others < valid.size(); ++i) {
    // Renamed first: a removal that is interrupted leaves no folder that looks like a damaged checkpoint.
    const fs::path discarded = directory / discarded_name(valid[i].filename().string(), run_id);
    rename_durably(valid[i], discarded);
    fs::remove_all(discarded);
  }
  const fs::file_time_type committed = fs::last_write_time(directory / newest / kManifestName);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (!is_temporary(name) && !is_discarded(name)) continue;
    if (last_change(entry.path()) < committed) fs::remove_all(entry.path());
  }
}

}  // namespace lt::checkpoint
