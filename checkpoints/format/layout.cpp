// Makes and parses the names, and lists step folders.
#include "checkpoints/format/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoints/format/files.h"
#include "io/presence.h"
#include "libtrain/error.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;

std::string step_name(Size step) { return fmt::format("step-{:08d}", step); }
std::string shard_name(int rank) { return fmt::format("rank-{:05d}.h5", rank); }
std::string temporary_name(const std::string& name, const std::string& attempt) { return name + ".tmp-" + attempt; }
std::string discarded_name(const std::string& name, const std::string& attempt) { return name + ".old-" + attempt; }

std::optional<Size> parse_step(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.size() < 8 || name.size() > 18 || (name.size() > 8 && name[0] == '0')) return std::nullopt;
  Size step = 0;
  for (const char c : name) {
    if (c < '0' || c > '9') return std::nullopt;
    step = 10 * step + (c - '0');
  }
  return step;
}

bool is_leftover(std::string_view name, std::string_view run) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos || (!parse_step(name.substr(0, dot)) && name.substr(0, dot) != kLatestName)) return false;
  const std::string_view mark = name.substr(dot);
  if (!mark.starts_with(".tmp-") && !mark.starts_with(".old-")) return false;
  return mark.substr(5).starts_with(std::string(run) + "-");
}

fs::path move_aside(const fs::path& folder) {
  for (int k = 1;; ++k) {
    const fs::path target = folder.string() + fmt::format(".corrupt-{}", k);
    if (fs::symlink_status(target).type() != fs::file_type::not_found) continue;
    rename_durably(folder, target);
    return target;
  }
}

// Throws DataError if the system does not say whether there is such a folder, and for a link to nothing: a run that
// takes a folder of checkpoints for none starts over.
std::vector<fs::path> steps_in(const fs::path& directory) {
  if (!fs::is_directory(io::status_of("checkpoint", directory))) return {};
  std::vector<std::pair<Size, fs::path>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (const auto step = parse_step(entry.path().filename().string())) found.emplace_back(*step, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> steps;
  for (auto& [step, path] : found) steps.push_back(std::move(path));
  return steps;
}

std::vector<fs::path> step_folders(const std::string& path) {
  fs::path root = fs::path(path).lexically_normal();
  if (root.filename().empty()) root = root.parent_path();
  if (!io::is_present("checkpoint", root)) return {};
  const fs::path name = fs::absolute(root).lexically_normal().filename();
  if (parse_step(name.string()) || io::is_present("checkpoint", root / kManifestName)) return {root};
  return steps_in(fs::is_directory(io::status_of("checkpoint", root / "checkpoints")) ? root / "checkpoints" : root);
}

}  // namespace lt::checkpoint
