// Replaces flock() in a test program; it can fail like on a file system without locks. Only one file of a program may
// include it.
#pragma once

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace lt_test {

inline int error_of_flock = 0;  // 0: it locks

}  // namespace lt_test

extern "C" int flock(int file, int operation) noexcept {
  if (lt_test::error_of_flock == 0) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = lt_test::error_of_flock;
  return -1;
}
