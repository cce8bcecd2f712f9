// Tells a missing lock from a lock that another process holds.
#pragma once

#include <cerrno>

namespace lt::io {

// True if flock() failed with this errno because the file system or the kernel has no locks. Callers then continue
// without a lock.
inline bool lacks_locks(int error) {
  constexpr int kNotSupported = 524;  // the kernel's ENOTSUPP, passed on by network file systems; libc does not name it
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == kNotSupported;
}

}  // namespace lt::io
