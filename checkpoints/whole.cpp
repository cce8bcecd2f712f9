// What is known of step folders: by path, with the state of their files when it was learnt.
#include "whole.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "verify.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

struct Known {
  std::string files;
  bool whole = false;
};

std::mutex known_mutex;
std::map<std::string, Known>& known() {
  static std::map<std::string, Known> folders;
  return folders;
}

// Name, inode, size and time of each file.
std::string files_of(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    files.push_back(fmt::format("{} {} {} {}.{:09}\n", entry.path().filename().string(), status.st_ino, status.st_size,
                                status.st_mtim.tv_sec, status.st_mtim.tv_nsec));
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) text += file;
  return text;
}

std::optional<bool> find(const std::string& path, const std::string& files) {
  const std::lock_guard lock(known_mutex);
  const auto found = known().find(path);
  if (found == known().end() || found->second.files != files) return std::nullopt;
  return found->second.whole;
}

}  // namespace

void remember_whole(const fs::path& folder, bool whole) {
  std::error_code failed;
  const std::string path = fs::canonical(folder, failed).string();
  if (failed || !fs::is_directory(path)) return;
  Known entry{files_of(path), whole};
  const std::lock_guard lock(known_mutex);
  known().insert_or_assign(path, std::move(entry));
}

bool is_whole(const fs::path& folder) {
  std::error_code failed;
  const std::string path = fs::canonical(folder, failed).string();
  if (failed || !fs::is_directory(path)) return false;
  if (const auto whole = find(path, files_of(path))) return *whole;
  return problems_of(folder, true).empty();  // which remembers it
}

}  // namespace lt::checkpoint
