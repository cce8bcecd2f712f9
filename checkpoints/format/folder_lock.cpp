// flock() on folders and files. A second lock by the same process would wait for the first, so the process keeps a
// table of its locks.
#include "checkpoints/format/folder_lock.h"

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
#include <utility>

#include "io/descriptor.h"
#include "io/lacks_locks.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Inode = std::pair<dev_t, ino_t>;

struct Held {
  std::mutex mutex;
  std::map<Inode, std::weak_ptr<void>> locks;
};
Held& held() {
  static Held instance;
  return instance;
}

std::optional<Inode> inode_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Inode{status.st_dev, status.st_ino};
}

// An open folder or file that is to be locked.
class Lock {
 public:
  Lock(const fs::path& path, int flags) : path_(path), file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    struct stat status {};
    if (file_.is_open() && ::fstat(file_.get(), &status) == 0) inode_ = {status.st_dev, status.st_ino};
  }
  // Removes a file that is alone in its folder: a start that failed leaves an empty folder empty.
  ~Lock() {
    if (!is_held_ || !has_its_name() || fs::is_directory(path_)) return;
    std::error_code failed;
    for (fs::directory_iterator at(path_.parent_path(), failed), end; !failed && at != end; at.increment(failed)) {
      if (at->path().filename() != path_.filename()) return;
    }
    if (!failed) ::unlink(path_.c_str());
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool is_open() const { return file_.is_open(); }
  const Inode& inode() const { return inode_; }
  // Whether the path still names it.
  bool has_its_name() const { return inode_of(path_) == inode_; }
  // False, with errno set, if it is not to be had.
  bool take() { return is_held_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0; }

 private:
  fs::path path_;
  io::Descriptor file_;
  Inode inode_;
  bool is_held_ = false;
};

// Null for reasons to go on without a lock: no folder, no right or room for the file, no locks.
std::shared_ptr<void> no_lock(const fs::path& path) {
  constexpr int kReasons[] = {ENOENT, ENOTDIR, EACCES, EPERM, EROFS, ENOSPC, EDQUOT, EBADF};
  if (io::lacks_locks(errno) || std::ranges::find(kReasons, errno) != std::end(kReasons)) return nullptr;
  throw DataError("checkpoint", fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(errno)));
}

// A failed start may remove the file between its opening and its locking here, which then begins again. Returns nullopt
// if that goes on.
std::optional<std::shared_ptr<void>> try_lock(const fs::path& path, int flags) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto lock = std::make_shared<Lock>(path, flags);
    if (!lock->is_open()) {
      if (errno == EINTR || errno == ESTALE) continue;
      return no_lock(path);
    }
    const std::lock_guard guard(held().mutex);
    std::weak_ptr<void>& known = held().locks[lock->inode()];
    if (std::shared_ptr<void> mine = known.lock()) return mine;
    if (!lock->take()) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      if (errno == EINTR || errno == ESTALE) continue;
      return no_lock(path);
    }
    if (!lock->has_its_name()) continue;
    known = lock;
    return lock;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::shared_ptr<void>> try_lock_folder(const fs::path& folder, LockOn on) {
  const auto outer = try_lock(folder, O_RDONLY | O_DIRECTORY);
  if (!outer || on == LockOn::folder) return outer;
  const auto inner = try_lock(folder / kLockName, O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW);
  if (!inner) return std::nullopt;
  if (*outer == nullptr || *inner == nullptr) return *outer == nullptr ? inner : outer;
  using Both = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;  // the file's lock ends first
  return std::make_shared<Both>(*outer, *inner);
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
