// Keeps one entry per folder. It is valid while a hash of the files' names, inodes, sizes and times is unchanged.
#include "checkpoints/format/known_folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/format/verify.h"
#include "libtrain/kernels/random.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

struct Known {
  std::uint64_t files = 0;
  Listing listing = {};  // not valid: not known
  std::optional<bool> whole = std::nullopt;
};

std::mutex known_mutex;
std::map<std::string, Known>& known() {
  static std::map<std::string, Known> folders;
  return folders;
}

// A hash over the name, inode, size and time of each file. A list would be long: a folder has a file per rank.
std::uint64_t files_of(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    files.push_back(fmt::format("{} {} {} {}.{:09}\n", entry.path().filename().string(), status.st_ino, status.st_size,
                                status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  }
  std::sort(files.begin(), files.end());
  std::uint64_t number = 0;
  for (const std::string& file : files) number = derive_key(number, file);
  return number;
}

// The folder's canonical path; nullopt if it is not a folder.
std::optional<std::string> path_of(const fs::path& folder) {
  std::error_code failed;
  const fs::path path = fs::canonical(folder, failed);
  if (failed || !fs::is_directory(path, failed)) return std::nullopt;
  return path.string();
}

Known find(const std::string& path, std::uint64_t files) {
  const std::lock_guard lock(known_mutex);
  const auto found = known().find(path);
  return found == known().end() || found->second.files != files ? Known{files} : found->second;
}

// Adds to the facts known about these files.
template <class Add>
void learn(const std::string& path, std::uint64_t files, Add&& add) {
  const std::lock_guard lock(known_mutex);
  Known& entry = known()[path];
  if (entry.files != files) entry = Known{files};
  add(entry);
}

}  // namespace

Listing remembered(const fs::path& folder, const std::function<Listing()>& look) {
  const auto path = path_of(folder);
  if (!path) return look();
  const std::uint64_t files = files_of(*path);
  Listing listing = find(*path, files).listing;
  if (listing.valid) {
    listing.path = folder.string();
    return listing;
  }
  listing = look();
  if (listing.valid) learn(*path, files, [&](Known& entry) { entry.listing = listing; });
  return listing;
}

void remember_whole(const fs::path& folder, bool whole) {
  if (const auto path = path_of(folder)) learn(*path, files_of(*path), [&](Known& entry) { entry.whole = whole; });
}

bool is_whole(const fs::path& folder) {
  const auto path = path_of(folder);
  if (!path) return false;
  if (const auto whole = find(*path, files_of(*path)).whole) return *whole;
  return problems_of(folder, true).empty();  // also remembers the result
}

}  // namespace lt::checkpoint
