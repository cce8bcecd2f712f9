// flock() on folders. A second lock by the same process would wait for the first, so the process keeps a table of its
// locks.
#include "folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <thread>

#include "io/descriptor.h"
#include "libtrain/error.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

using Inode = std::pair<dev_t, ino_t>;

struct Held {
  std::mutex mutex;
  std::map<Inode, std::weak_ptr<void>> folders;
};
Held& held() {
  static Held instance;
  return instance;
}

}  // namespace

std::optional<std::shared_ptr<void>> try_lock_folder(const fs::path& folder) {
  const auto lock = std::make_shared<Descriptor>(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!lock->is_open() || ::fstat(lock->get(), &status) != 0) return std::shared_ptr<void>();
  const std::lock_guard guard(held().mutex);
  std::weak_ptr<void>& known = held().folders[Inode{status.st_dev, status.st_ino}];
  if (std::shared_ptr<void> mine = known.lock()) return mine;
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) == 0) {
    known = lock;
    return lock;
  }
  if (errno == EWOULDBLOCK) return std::nullopt;
  return std::shared_ptr<void>();
}

std::shared_ptr<void> lock_folder(const fs::path& folder, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{20};
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const auto lock = try_lock_folder(folder)) return *lock;
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(kPause);
  }
  throw DataError("checkpoint",
                  fmt::format("{}: expected to have the folder alone within {} s, another process writes to it",
                              fs::absolute(folder).string(), patience.count() / 1000),
                  "`fuser -v` on the folder names the process; end it, or choose another checkpoint.dir");
}

}  // namespace lt::checkpoint
