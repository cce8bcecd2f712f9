// POSIX files with every return code checked.
#include "files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lt::checkpoint {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_errno(const std::string& name, const char* what, int error) {
  throw DataError("checkpoint", fmt::format("{}: {}: {}", name, what, std::strerror(error)));
}

}  // namespace

Descriptor::Descriptor(const fs::path& path, int flags, int mode)
    : name_(path.filename().string()), fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
  if (fd_ < 0) fail("cannot open");
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void Descriptor::fail(const char* what) const { throw_errno(name_, what, errno); }

Size Descriptor::bytes() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("cannot stat");
  if (!S_ISREG(status.st_mode)) throw DataError("checkpoint", name_ + ": is not a regular file");
  return status.st_size;
}

void Descriptor::read_at(void* data, Size bytes, Size offset) const {
  for (char* p = static_cast<char*>(data); bytes > 0;) {
    const ssize_t n = ::pread(fd_, p, static_cast<std::size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read");
    if (n == 0) {
      throw DataError("checkpoint",
                      fmt::format("{}: expected {} more bytes at {}, found its end", name_, bytes, offset));
    }
    p += n, offset += n, bytes -= n;
  }
}

void Descriptor::write(const void* data, std::size_t bytes) const {
  for (const char* p = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = ::write(fd_, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write");
    p += n, bytes -= static_cast<std::size_t>(n);
  }
}

void Descriptor::sync() const {
  if (::fsync(fd_) != 0) fail("cannot fsync");
}

void Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && ::close(fd) != 0) fail("cannot close");
}

Descriptor open_regular(const fs::path& file) {
  Descriptor descriptor(file, O_RDONLY | O_NONBLOCK);  // which regular files do not mind
  descriptor.bytes();                                  // throws for anything else
  return descriptor;
}

Size file_bytes(const fs::path& file) { return open_regular(file).bytes(); }

void sync_file(const fs::path& file) {
  Descriptor descriptor(file, O_RDONLY);
  descriptor.sync();
  descriptor.close();
}

void sync_folder(const fs::path& folder) {
  Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY);
  descriptor.sync();
  descriptor.close();
}

std::string read_text(const fs::path& file, Size limit) {
  const Descriptor descriptor = open_regular(file);
  const Size bytes = descriptor.bytes();
  if (bytes > limit) {
    throw DataError("checkpoint",
                    fmt::format("{}: expected at most {} bytes, found {}", file.filename().string(), limit, bytes));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  descriptor.read_at(text.data(), static_cast<Size>(text.size()), 0);
  return text;
}

void write_durably(const fs::path& file, std::string_view text) {
  Descriptor descriptor(file, O_WRONLY | O_CREAT | O_TRUNC);
  descriptor.write(text.data(), text.size());
  descriptor.sync();
  descriptor.close();
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw_errno(from.filename().string(), ("cannot rename to " + to.filename().string()).c_str(), errno);
  }
  sync_folder(to.parent_path());
}

void make_folders_durably(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  const fs::path parent = fs::absolute(folder).lexically_normal().parent_path();
  make_folders_durably(parent);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    throw_errno(fs::absolute(folder).string(), "cannot create the folder", errno);
  }
  sync_folder(parent);
}

}  // namespace lt::checkpoint
