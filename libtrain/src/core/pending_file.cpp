// Write, fsync, rename, fsync of the folder.
#include "core/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/new_file.h"
#include "libtrain/error.h"

namespace lt {

PendingFile::PendingFile(const std::string& part, const std::string& path) : part_(part), path_(path) {
  NewFile file = create_beside(path);
  if (file.fd < 0) fail("cannot create");
  fd_ = file.fd, pending_ = std::move(file.path);
}

PendingFile::~PendingFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(pending_.c_str());
}

void PendingFile::fail(const char* what) const {
  throw DataError(part_, path_ + ": " + what + ": " + std::strerror(errno));
}

void PendingFile::write(const void* data, std::size_t bytes) {
  for (const char* p = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t written = ::write(fd_, p, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    p += written, bytes -= static_cast<std::size_t>(written);
  }
}

void PendingFile::finish() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) fail("cannot fsync");
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot close");
}

void PendingFile::commit() {
  finish();
  if (std::rename(pending_.c_str(), path_.c_str()) != 0) fail("cannot rename");
  committed_ = true;
  const std::string folder = std::filesystem::absolute(path_).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open its folder");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail("cannot fsync its folder");
}

std::string read_whole_file(const std::string& part, const std::string& path) {
  std::error_code ignored;
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path, ignored)) {
    throw DataError(part, path + ": expected a readable file");
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_whole_file(const std::string& part, const std::string& path, const std::string& text) {
  PendingFile file(part, path);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace lt
