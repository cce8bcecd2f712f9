// The calls on descriptors that every reader and writer needs.
#include "io/descriptor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace lt::io {

bool Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0;
}

bool Descriptor::write(const void* data, std::size_t bytes) const {
  for (const char* p = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t written = ::write(fd_, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    p += written, bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

std::size_t Descriptor::read_at(void* data, std::size_t bytes, std::int64_t offset) const {
  std::size_t done = 0;
  while (done < bytes) {
    errno = 0;
    const ssize_t got =
        ::pread(fd_, static_cast<char*>(data) + done, bytes - done, offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void allow_descriptors(std::size_t count) {
  constexpr rlim_t kOthers = 1024;
  static std::atomic<rlim_t> allowed{kOthers};
  const rlim_t wanted = allowed += count;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lt::io
