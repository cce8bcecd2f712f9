// The folder /dev/shm/libtrain-<run>, which belongs to this user alone.
#include "checkpoints/memory/memory_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/readable.h"
#include "libtrain/error.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

// Others can create files with predictable names in /dev/shm, but not a folder that this user owns.
bool is_of_this_user(const fs::path& folder) {
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

fs::path memory_folder(const std::string& run) { return fs::path("/dev/shm") / ("libtrain-" + run); }

void make_memory_folder(const std::string& run) {
  const fs::path folder = memory_folder(run);
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  if (errno != EEXIST) {
    throw DataError("checkpoint", fmt::format("{}: cannot create: {}", folder.string(), std::strerror(errno)),
                    kWithoutMemory);
  }
  if (!is_of_this_user(folder)) {
    throw DataError("checkpoint", folder.string() + ": expected a folder of this user alone, found another's");
  }
}

std::map<std::string, std::unique_ptr<MemoryCopy>> memory_copies(const std::string& run) {
  std::map<std::string, std::unique_ptr<MemoryCopy>> copies;
  const fs::path folder = memory_folder(run);
  if (!is_of_this_user(folder)) return copies;
  for (const fs::path& file : io::readable_entries(folder)) {
    auto copy = MemoryCopy::open(file);
    if (copy != nullptr && copy->owner().run == run) copies.emplace(file.filename(), std::move(copy));
  }
  return copies;
}

bool is_memory_in_use(const std::string& run) {
  const fs::path folder = memory_folder(run);
  if (!is_of_this_user(folder)) return false;
  const auto files = io::readable_entries(folder);
  return std::any_of(files.begin(), files.end(), MemoryCopy::is_being_written);
}

Size remove_memory_copies(const std::string& run) {
  Size bytes = 0;
  const fs::path folder = memory_folder(run);
  if (!is_of_this_user(folder)) return bytes;
  std::error_code failed;
  for (const fs::path& file : io::readable_entries(folder)) {
    const auto size = fs::file_size(file, failed);
    bytes += failed ? 0 : static_cast<Size>(size);
  }
  fs::remove_all(folder, failed);
  if (failed) throw DataError("checkpoint", fmt::format("{}: cannot remove: {}", folder.string(), failed.message()));
  return bytes;
}

}  // namespace lt::checkpoint
