// The calls on descriptors that every writer needs.
#include "io/descriptor.h"

#include <unistd.h>

#include <cerrno>

namespace lt {

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

}  // namespace lt
