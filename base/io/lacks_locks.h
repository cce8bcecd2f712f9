// Tells a missing lock from a lock that another process holds.
#pragma once

#include <cerrno>

namespace lt::io {

// True if flock() failed with this errno because the file system or the kernel has no locks. Callers continue without.
inline bool lacks_locks(int error) {
  constexpr int kNotSupported = 524;  // ENOTSUPP of the kernel, which network file systems hand on; it has no name here
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == kNotSupported;
}

}  // namespace lt::io
