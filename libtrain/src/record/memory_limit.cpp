// Reads /proc/self/cgroup, then the limits on the way up.
#include "record/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lt {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "unlimited" as a number close to 2^63, version 2 as "max", which is no number.
constexpr Size kUnlimited = Size{1} << 62;

std::optional<Size> limit_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  Size bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || bytes <= 0 || bytes >= kUnlimited) return std::nullopt;
  return bytes;
}

// From the group `path` below `mount` up. In a container the path may be the host's, which is not there: then the
// limits of its own group stand at the mount.
std::optional<Size> smallest_on_the_way_up(const fs::path& mount, const std::string& path, const char* file) {
  std::optional<Size> least;
  fs::path group = fs::path(path).relative_path();
  while (true) {
    const std::optional<Size> limit = limit_in(mount / group / file);
    if (limit) least = std::min(*limit, least.value_or(*limit));
    if (group.empty()) return least;
    group = group.parent_path();
  }
}

bool lists_memory(const std::string& controllers) {
  std::istringstream stream(controllers);
  for (std::string name; std::getline(stream, name, ',');) {
    if (name == "memory") return true;
  }
  return false;
}

}  // namespace

std::optional<Size> memory_limit_bytes(const std::string& root) {
  std::optional<Size> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path; version 2 names no controllers
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    std::optional<Size> limit;
    if (controllers.empty()) {
      limit = smallest_on_the_way_up(root + "/sys/fs/cgroup", path, "memory.max");
    } else if (lists_memory(controllers)) {
      limit = smallest_on_the_way_up(root + "/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
    }
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
}

}  // namespace lt
