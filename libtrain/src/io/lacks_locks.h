// Which failures of flock() say that a file system, or the kernel, has no locks.
#pragma once

#include <cerrno>

namespace lt {

// Whether errno after flock() says so. Work goes on without a lock then; EWOULDBLOCK says that another process has it.
inline bool lacks_locks(int error) {
  constexpr int kNotSupported = 524;  // ENOTSUPP of the kernel, which network file systems hand on; it has no name here
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == kNotSupported;
}

}  // namespace lt
