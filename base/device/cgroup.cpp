// Reads /proc/self/cgroup and the folders below /sys/fs/cgroup. A file that is missing or says "max" sets no limit.
#include "device/cgroup.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>

namespace lt::device {
namespace {

namespace fs = std::filesystem;

// A line of /proc/self/cgroup: "4:cpu,cpuacct:/jobs/7" in version 1, "0::/jobs/7" in version 2.
struct Membership {
  std::string controllers, path;
};

std::vector<Membership> memberships(const fs::path& root) {
  std::vector<Membership> all;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    all.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return all;
}

bool names(const std::string& controllers, const std::string& controller) {
  return ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
}

// Appends the folders from the group up to the mount. Skips missing folders: inside a container the path may be the
// host's.
void append_upwards(std::vector<fs::path>& folders, const fs::path& mount, const std::string& path) {
  std::error_code ignored;
  for (fs::path below = fs::path(path).relative_path();; below = below.parent_path()) {
    if (fs::is_directory(mount / below, ignored)) folders.push_back(below.empty() ? mount : mount / below);
    if (below.empty()) return;
  }
}

std::optional<double> read_number(std::istream& file) {
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// Microseconds of processor time per period, divided by the period: cpu.max in version 2, two files in version 1.
std::optional<double> quota_of(const fs::path& folder) {
  std::ifstream both(folder / "cpu.max"), quota_file(folder / "cpu.cfs_quota_us"),
      period_file(folder / "cpu.cfs_period_us");
  const auto quota = read_number(both.is_open() ? both : quota_file);
  const auto period = quota ? read_number(both.is_open() ? both : period_file) : std::nullopt;
  if (!period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// Version 1 writes "unlimited" as a number close to 2^63; version 2 writes "max", which is not a number.
std::optional<Size> memory_limit_in(const fs::path& folder) {
  constexpr Size kUnlimited = Size{1} << 62;
  std::ifstream file(folder / "memory.max"), version_1(folder / "memory.limit_in_bytes");
  Size bytes = 0;
  (file.is_open() ? file : version_1) >> bytes;
  return bytes > 0 && bytes < kUnlimited ? std::optional(bytes) : std::nullopt;
}

Size number_in(const fs::path& path) {
  std::ifstream file(path);
  Size number = 0;
  file >> number;
  return number;
}

// The files that have not been used for a while. Version 1 counts the groups below in "total_inactive_file".
Size droppable_bytes_in(const fs::path& folder) {
  std::ifstream file(folder / "memory.stat");
  Size own = 0, total = 0, bytes = 0;
  for (std::string name; file >> name >> bytes;) {
    if (name == "inactive_file") own = bytes;
    if (name == "total_inactive_file") total = bytes;
  }
  return std::max(own, total);
}

// One of the two files exists.
Size memory_used_in(const fs::path& folder) {
  const Size used = number_in(folder / "memory.current") + number_in(folder / "memory.usage_in_bytes");
  return std::max<Size>(0, used - droppable_bytes_in(folder));
}

// The smallest bytes_of(folder, limit) of the groups with a memory limit; nullopt if there is none.
template <class BytesOf>
std::optional<Size> least_of_limits(const fs::path& root, BytesOf&& bytes_of) {
  std::optional<Size> least;
  for (const fs::path& folder : cgroup_folders("memory", root)) {
    const std::optional<Size> limit = memory_limit_in(folder);
    if (!limit) continue;
    const Size bytes = bytes_of(folder, *limit);
    least = std::min(bytes, least.value_or(bytes));
  }
  return least;
}

// The inode, which is the same inside and outside a container.
std::string identity(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return folder;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

}  // namespace

std::vector<fs::path> cgroup_folders(const std::string& controller, const fs::path& root) {
  const fs::path mounts = root / "sys/fs/cgroup";
  std::vector<fs::path> folders;
  for (const auto& [controllers, path] : memberships(root)) {
    if (names(controllers, controller)) append_upwards(folders, mounts / controllers, path);
  }
  for (const auto& [controllers, path] : memberships(root)) {
    if (controllers.empty()) append_upwards(folders, mounts, path);
  }
  return folders;
}

std::optional<Size> memory_limit_bytes(const fs::path& root) {
  return least_of_limits(root, [](const fs::path&, Size limit) { return limit; });
}

std::optional<Size> memory_left_bytes(const fs::path& root) {
  return least_of_limits(
      root, [](const fs::path& folder, Size limit) { return std::max<Size>(0, limit - memory_used_in(folder)); });
}

std::vector<CpuQuota> cpu_quotas(const fs::path& root) {
  std::vector<CpuQuota> quotas;
  for (const fs::path& folder : cgroup_folders("cpu", root)) {
    if (const auto cores = quota_of(folder)) quotas.push_back({identity(folder), *cores});
  }
  return quotas;
}

}  // namespace lt::device
