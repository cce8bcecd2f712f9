// flock() on folders and files. A second lock by the same process would wait for the first, so the process keeps a
// table of its locks.
#include "folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "io/descriptor.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Inode = std::pair<dev_t, ino_t>;

struct Held {
  std::mutex mutex;
  std::map<Inode, std::weak_ptr<void>> files;
};
Held& held() {
  static Held instance;
  return instance;
}

// True for reasons to go on without a lock: no folder, nothing can be written to it, or no locks.
bool has_no_lock(int error) {
  constexpr int kReasons[] = {ENOENT, ENOTDIR, EACCES, EPERM,      EROFS, ENOSPC,
                              EDQUOT, ENOLCK,  ENOSYS, EOPNOTSUPP, EINVAL};
  return std::ranges::find(kReasons, error) != std::end(kReasons);
}

// Null if the folder has no lock.
std::shared_ptr<void> no_lock(const fs::path& file) {
  if (has_no_lock(errno)) return nullptr;
  throw DataError("checkpoint", fmt::format("{}: cannot be locked: {}", file.string(), std::strerror(errno)));
}

}  // namespace

std::optional<std::shared_ptr<void>> try_lock_folder(const fs::path& folder, LockOn on) {
  const fs::path file = on == LockOn::folder ? folder : folder / kLockName;
  const int flags = on == LockOn::folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW;
  for (;;) {
    const auto lock = std::make_shared<Descriptor>(::open(file.c_str(), flags | O_CLOEXEC, 0644));
    struct stat opened {};
    struct stat named {};
    if (!lock->is_open() || ::fstat(lock->get(), &opened) != 0) return no_lock(file);
    const std::lock_guard guard(held().mutex);
    std::weak_ptr<void>& known = held().files[Inode{opened.st_dev, opened.st_ino}];
    if (std::shared_ptr<void> mine = known.lock()) return mine;
    if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      return no_lock(file);
    }
    // A start that failed may have removed the file since it was opened here.
    if (::stat(file.c_str(), &named) != 0 || named.st_dev != opened.st_dev || named.st_ino != opened.st_ino) continue;
    known = lock;
    return lock;
  }
}

void remove_lock_if_alone(const fs::path& folder) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().filename() != kLockName) return;
  }
  if (!failed) ::unlink((folder / kLockName).c_str());
}

std::shared_ptr<void> lock_folder(const fs::path& folder, std::chrono::milliseconds patience, LockOn on) {
  constexpr std::chrono::milliseconds kPause{20};
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const auto lock = try_lock_folder(folder, on)) return *lock;
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kPause);
  }
  throw FolderTaken("checkpoint",
                    fmt::format("{}: expected to have the folder alone within {} s, another process writes to it",
                                fs::absolute(folder).string(), patience.count() / 1000),
                    "`fuser -v` on the folder names the process; end it, or choose another checkpoint.dir");
}

}  // namespace lt::checkpoint
