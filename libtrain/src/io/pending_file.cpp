// Commits a file in this order: write, fsync, rename, fsync of the folder.
#include "io/pending_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "io/file_name.h"
#include "io/new_file.h"
#include "io/readable.h"
#include "libtrain/error.h"

namespace lt {
namespace {

const std::string kPendingMark = ".tmp-";

// The path. Throws DataError for /dev/null and the like, in whose place the rename would put a file.
const std::string& replaceable(const std::string& component, const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_other(path, unknown)) return path;
  throw DataError(component, path + ": expected a regular file, found a device, pipe or socket");
}

}  // namespace

PendingFile::PendingFile(const std::string& component, const std::string& path, const std::string& mark)
    : component_(component),
      path_(replaceable(component, path)),
      pending_(with_suffix(path, kPendingMark + mark)),
      file_(create_new(pending_)) {
  if (!file_.is_open()) fail("cannot create");
}

PendingFile::~PendingFile() {
  if (!committed_) ::unlink(pending_.c_str());
}

void PendingFile::fail(const char* what) const {
  throw DataError(component_, path_ + ": " + what + ": " + std::strerror(errno));
}

void PendingFile::write(const void* data, std::size_t bytes) {
  if (!file_.write(data, bytes)) fail("cannot write");
}

void PendingFile::finish() {
  if (!file_.is_open()) return;
  if (::fsync(file_.get()) != 0) fail("cannot fsync");
  if (!file_.close()) fail("cannot close");
}

void PendingFile::commit() {
  finish();
  if (std::rename(pending_.c_str(), path_.c_str()) != 0) fail("cannot rename");
  committed_ = true;
  if (!sync_folder(std::filesystem::absolute(path_).parent_path())) fail("cannot fsync its folder");
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

}  // namespace lt
