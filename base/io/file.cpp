// POSIX files with every return code checked. A file is committed in this order: write, fsync, rename, fsync of the
// folder.
#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "io/file_name.h"
#include "io/readable.h"
#include "libtrain/error.h"

namespace lt::io {
namespace {

const std::string kPendingMark = ".tmp-";

// Some file systems cannot sync a folder, such as that of VirtualBox's shared folders.
bool has_no_fsync(int error) { return error == EINVAL || error == ENOTSUP || error == ENOSYS; }

// The path. Throws DataError for /dev/null and the like, in whose place the rename would put a file.
const std::string& replaceable(const std::string& component, const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_other(path, unknown)) return path;
  throw DataError(component, path + ": expected a regular file, found a device, pipe or socket");
}

}  // namespace

Descriptor create_new(const std::string& path, unsigned mode) {
  return Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
}

bool sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened.is_open() && (::fsync(opened.get()) == 0 || has_no_fsync(errno));
}

CheckedFile::CheckedFile(std::string component, std::string name, Descriptor opened, const char* failure)
    : component_(std::move(component)), name_(std::move(name)), file_(std::move(opened)) {
  if (!file_.is_open()) fail(failure);
}

void CheckedFile::fail(const char* what) const {
  throw DataError(component_, name_ + ": " + what + ": " + std::strerror(errno));
}

Size CheckedFile::bytes() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail("cannot stat");
  if (!S_ISREG(status.st_mode)) throw DataError(component_, name_ + ": is not a regular file");
  return status.st_size;
}

void CheckedFile::read_at(void* data, Size bytes, Size offset) const {
  const auto got = static_cast<Size>(file_.read_at(data, static_cast<std::size_t>(bytes), offset));
  if (got == bytes) return;
  if (errno != 0) fail("cannot read");
  throw DataError(component_, name_ + ": expected " + std::to_string(bytes - got) + " more bytes at " +
                                  std::to_string(offset + got) + ", found its end");
}

void CheckedFile::write(const void* data, std::size_t bytes) const {
  if (!file_.write(data, bytes)) fail("cannot write");
}

void CheckedFile::truncate(Size bytes) const {
  if (::ftruncate(file_.get(), bytes) != 0) fail("cannot truncate");
}

void CheckedFile::sync() const {
  if (::fsync(file_.get()) != 0) fail("cannot fsync");
}

void CheckedFile::close() {
  if (!file_.close()) fail("cannot close");
}

PendingFile::PendingFile(const std::string& component, const std::string& path, const std::string& mark)
    : path_(replaceable(component, path)),
      pending_(with_suffix(path, kPendingMark + mark)),
      file_(component, path, create_new(pending_), "cannot create") {}

PendingFile::~PendingFile() {
  if (!committed_) ::unlink(pending_.c_str());
}

void PendingFile::finish() {
  if (!file_.descriptor().is_open()) return;
  file_.sync();
  file_.close();
}

void PendingFile::commit() {
  finish();
  if (std::rename(pending_.c_str(), path_.c_str()) != 0) file_.fail("cannot rename");
  committed_ = true;
  if (!sync_folder(std::filesystem::absolute(path_).parent_path())) file_.fail("cannot fsync its folder");
}

void remove_pending(const std::string& path) {
  const std::filesystem::path file = std::filesystem::absolute(path);
  std::string begin = with_suffix(file, kPendingMark + std::string(PendingFile::kMarkDigits, '0')).filename();
  begin.resize(begin.size() - PendingFile::kMarkDigits);
  for (const std::filesystem::path& other : readable_entries(file.parent_path())) {
    if (other.filename().string().starts_with(begin)) ::unlink(other.c_str());
  }
}

void write_whole_file(const std::string& component, const std::string& path, const std::string& text) {
  PendingFile file(component, path);
  file.write(text.data(), text.size());
  file.commit();
}

AppendFile::AppendFile(const std::string& component, const std::string& path)
    : file_(component, path, Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644))),
      size_(::lseek(file_.descriptor().get(), 0, SEEK_END)) {
  if (size_ < 0) file_.fail("cannot seek");
}

void AppendFile::append(const std::string& record) {
  if (torn_) cut(size_);
  torn_ = true;
  try {
    file_.write(record.data(), record.size());
  } catch (const DataError&) {
    torn_ = ::ftruncate(file_.descriptor().get(), size_) != 0;
    throw;
  }
  size_ += static_cast<Size>(record.size());
  torn_ = false;
}

void AppendFile::cut(Size bytes) {
  file_.truncate(bytes);
  size_ = bytes, torn_ = false;
}

std::string AppendFile::read(Size begin, Size count) const {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  file_.read_at(bytes.data(), count, begin);
  return bytes;
}

}  // namespace lt::io
