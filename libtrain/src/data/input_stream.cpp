// Reads files and standard input.
#include "data/input_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/error.h"

namespace lt {
namespace {

class PlainInput final : public InputStream {
 public:
  explicit PlainInput(std::unique_ptr<StoredBytes> file) : file_(std::move(file)) {}
  std::size_t read(char* to, std::size_t bytes) override { return file_->read(to, bytes); }
  Size skip(Size bytes) override { return file_->seek(bytes) ? bytes : InputStream::skip(bytes); }
  Size stored_offset() const override { return file_->offset(); }

 private:
  std::unique_ptr<StoredBytes> file_;
};

}  // namespace

StoredBytes::StoredBytes(const std::string& path)
    : path_(path), file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  const bool failed = !file_.is_open() || ::fstat(file_.get(), &status) != 0;
  if (!failed && !S_ISDIR(status.st_mode)) return;
  throw DataError(
      "data", fmt::format("{}: expected a readable file, found: {}", path, failed ? std::strerror(errno) : "a folder"));
}

std::size_t StoredBytes::read(char* to, std::size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(file_.get(), to, bytes);
    if (got >= 0) {
      offset_ += got;
      return static_cast<std::size_t>(got);
    }
    if (errno == EINTR) continue;
    throw DataError("data", fmt::format("{}: offset {}: cannot read: {}", path_, offset_, std::strerror(errno)));
  }
}

bool StoredBytes::seek(Size bytes) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < offset_ + bytes) return false;
  if (::lseek(file_.get(), bytes, SEEK_CUR) < 0) return false;
  offset_ += bytes;
  return true;
}

Size InputStream::skip(Size bytes) {
  std::vector<char> unused(std::size_t{1} << 20);
  Size skipped = 0;
  while (skipped < bytes) {
    const std::size_t got = read(unused.data(), std::min(unused.size(), static_cast<std::size_t>(bytes - skipped)));
    if (got == 0) break;
    skipped += static_cast<Size>(got);
  }
  return skipped;
}

std::unique_ptr<InputStream> open_input(const std::string& path) {
  auto file = std::make_unique<StoredBytes>(path);
  if (path.ends_with(".gz")) return decompress_gzip(std::move(file));
  if (path.ends_with(".zst")) return decompress_zstd(std::move(file));
  return std::make_unique<PlainInput>(std::move(file));
}

std::string read_whole_input(const std::string& path) {
  const auto input = open_input(path);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 20);
  while (const std::size_t got = input->read(piece.data(), piece.size())) text.append(piece.data(), got);
  return text;
}

bool is_json_lines(const std::string& path) {
  std::string_view name = path;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name.ends_with(".jsonl");
}

}  // namespace lt
