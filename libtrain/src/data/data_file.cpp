// Opens and reads files of data.
#include "data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "libtrain/kernels/random.h"

namespace lt::data {
namespace {

// Empty if the path is absolute, or the working folder has no name.
std::string hint_of_missing(const std::string& path) {
  std::error_code nameless;
  const std::filesystem::path folder = std::filesystem::current_path(nameless);
  if (nameless || path.starts_with('/')) return "";
  return fmt::format("the path is relative to the working folder, {}", folder.string());
}

}  // namespace

DataFile::DataFile(std::string path, const char* kind, const char* hint) : path_(std::move(path)), hint_(hint) {
  // O_NONBLOCK: opening a FIFO does not block; it is refused below.
  file_ = io::Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) {
    const int why = errno;
    throw DataError("data", fmt::format("{}: expected a readable {}, found: {}", path_, kind, std::strerror(why)),
                    why == ENOENT ? hint_of_missing(path_) : "");
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError("data", fmt::format("{}: expected a regular file, found a {}", path_,
                                        S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  size_ = status.st_size;
}

void DataFile::read(Size offset, Size bytes, void* out) const {
  const auto got = static_cast<Size>(file_.read_at(out, static_cast<std::size_t>(bytes), offset));
  if (got == bytes) return;
  if (errno != 0) fail(offset + got, "expected {} bytes, found: {}", bytes - got, std::strerror(errno));
  struct stat status {};
  const Size now = ::fstat(file_.get(), &status) == 0 ? status.st_size : offset + got;
  fail(std::min(size_, now), "the file changed while it was in use: expected {} bytes, found {}", size_, now);
}

std::uint64_t DataFile::digest(std::uint64_t before) const {
  constexpr Size kPiece = 4096, kPieces = 16;
  std::uint64_t hash = derive_key(before, std::to_string(size_));
  const Size last = std::max<Size>(size_ - kPiece, 0);  // where the last piece begins
  std::string piece;
  for (Size i = 0, end = 0; i < kPieces && end < size_; ++i) {
    const Size begin = std::max(end, last / (kPieces - 1) * i + last % (kPieces - 1) * i / (kPieces - 1));
    end = std::min(begin + kPiece, size_);
    piece.resize(static_cast<std::size_t>(end - begin));
    read(begin, end - begin, piece.data());
    hash = derive_key(hash, piece);
  }
  return hash;
}

void DataFile::require_size(Size bytes, const std::string& what) const {
  if (size_ == bytes) return;
  fail(std::min(size_, bytes), "expected {} bytes for {}, found {} bytes: {}", bytes, what, size_,
       size_ < bytes ? "the file is truncated" : "there are trailing bytes");
}

}  // namespace lt::data
