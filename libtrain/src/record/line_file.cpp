// An append-only file of whole lines.
#include "record/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "libtrain/error.h"

namespace lt {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw DataError("record", path + ": " + what + ": " + std::strerror(errno));
}

// The length up to and including the last newline.
off_t whole_lines(int fd, const std::string& path) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) fail(path, "cannot seek");
  std::string block(4096, '\0');
  for (off_t end = size; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    const ssize_t got = ::pread(fd, block.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) fail(path, "cannot read");
    for (off_t i = end; i-- > begin;) {
      if (block[static_cast<std::size_t>(i - begin)] == '\n') return i + 1;
    }
    end = begin;
  }
  return 0;
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(folder, "cannot open");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail(folder, "cannot fsync");
}

}  // namespace

LineFile::LineFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(path, "cannot open");
  const off_t end = whole_lines(fd_, path);
  if (end == 0) sync_folder_of(path);
  if (::ftruncate(fd_, end) != 0) fail(path, "cannot truncate");
  if (::lseek(fd_, end, SEEK_SET) < 0) fail(path, "cannot seek");
}

LineFile::~LineFile() { ::close(fd_); }

void LineFile::append(const std::string& line) {
  const std::string text = line + "\n";
  const ssize_t written = ::write(fd_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) fail(path_, "cannot append a whole line");
}

void LineFile::sync() {
  if (::fsync(fd_) != 0) fail(path_, "cannot sync");
}

}  // namespace lt
