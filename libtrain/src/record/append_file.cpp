// Appends records and cuts off the remains of a failed write.
#include "record/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "libtrain/error.h"

namespace lt {

AppendFile::AppendFile(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!file_.is_open()) fail("cannot open", errno);
  size_ = ::lseek(file_.get(), 0, SEEK_END);
  if (size_ < 0) fail("cannot seek", errno);
}

void AppendFile::fail(const char* what, int error) const {
  throw DataError("record", path_ + ": " + what + ": " + std::strerror(error));
}

void AppendFile::append(const std::string& record) {
  if (torn_) cut(size_);
  torn_ = true;
  if (!file_.write(record.data(), record.size())) {
    const int error = errno;
    torn_ = ::ftruncate(file_.get(), size_) != 0;
    fail("cannot append", error);
  }
  size_ += static_cast<off_t>(record.size());
  torn_ = false;
}

void AppendFile::sync() {
  if (::fsync(file_.get()) != 0) fail("cannot sync", errno);
}

void AppendFile::cut(off_t bytes) {
  if (::ftruncate(file_.get(), bytes) != 0) fail("cannot truncate", errno);
  size_ = bytes, torn_ = false;
}

std::string AppendFile::read(off_t begin, std::size_t count) const {
  std::string bytes(count, '\0');
  const ssize_t got = ::pread(file_.get(), bytes.data(), count, begin);
  if (got != static_cast<ssize_t>(count)) fail("cannot read", got < 0 ? errno : EIO);
  return bytes;
}

}  // namespace lt
