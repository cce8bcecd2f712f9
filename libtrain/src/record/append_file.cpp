// Appends, and cuts off what a failed write left.
#include "record/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "libtrain/error.h"

namespace lt {

AppendFile::AppendFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot open", errno);
  size_ = ::lseek(fd_, 0, SEEK_END);
  const int error = errno;
  if (size_ >= 0) return;
  ::close(fd_);
  fail("cannot seek", error);
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::fail(const char* what, int error) const {
  throw DataError("record", path_ + ": " + what + ": " + std::strerror(error));
}

void AppendFile::append(const std::string& record) {
  if (torn_) cut(size_);
  torn_ = true;
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = ::write(fd_, record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += static_cast<std::size_t>(written);
  }
  if (done < record.size()) {
    const int error = errno;
    torn_ = ::ftruncate(fd_, size_) != 0;
    fail("cannot append", error);
  }
  size_ += static_cast<off_t>(record.size());
  torn_ = false;
}

void AppendFile::sync() {
  if (::fsync(fd_) != 0) fail("cannot sync", errno);
}

void AppendFile::cut(off_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) fail("cannot truncate", errno);
  size_ = bytes, torn_ = false;
}

std::string AppendFile::read(off_t begin, std::size_t count) const {
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(fd_, bytes.data(), count, begin);
  if (got != static_cast<ssize_t>(count)) fail("cannot read", got < 0 ? errno : EIO);
  return bytes;
}

}  // namespace lt
