// Reads files and standard input.
#include "data/input_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "io/lower_case.h"

namespace lt::data {
namespace {

using namespace std::string_view_literals;

// How files that are no text in UTF-8 begin, and what a user can do with them.
struct Beginning {
  std::string_view bytes;
  const char *found, *hint;
};
constexpr Beginning kNoText[] = {
    {"\x1f\x8b"sv, "gzip data", "it is decompressed if its name ends in .gz, and by `zcat` before standard input"},
    {"\x28\xb5\x2f\xfd"sv, "zstd data",
     "it is decompressed if its name ends in .zst, and by `zstdcat` before --input -"},
    {"\xfd"
     "7zXZ\0"sv,
     "xz data", "`xzcat FILE | ltrain prepare --input -` reads it"},
    {"PK\x03\x04"sv, "a zip archive", "`unzip` it first"},
    {"PAR1\x15"sv, "a Parquet file", "write its texts as JSON lines first"},
    {"\xff\xfe\0\0"sv, "text in UTF-32", "`iconv -f UTF-32 -t UTF-8 FILE` rewrites it"},
    {"\0\0\xfe\xff"sv, "text in UTF-32", "`iconv -f UTF-32 -t UTF-8 FILE` rewrites it"},
    {"\xff\xfe"sv, "text in UTF-16", "`iconv -f UTF-16 -t UTF-8 FILE` rewrites it"},
    {"\xfe\xff"sv, "text in UTF-16", "`iconv -f UTF-16 -t UTF-8 FILE` rewrites it"},
};

// Throws DataError unless the content of an input may begin so.
void require_utf8_text(const std::string& path, std::string_view head) {
  const auto refuse = [&](const std::string& found, const char* hint) {
    throw DataError("data", fmt::format("{}: expected text in UTF-8 without bytes 0, found {}", path, found), hint);
  };
  for (const Beginning& other : kNoText) {
    if (head.starts_with(other.bytes)) refuse(other.found, other.hint);
  }
  if (const std::size_t zero = head.find('\0'); zero != std::string_view::npos) {
    refuse(fmt::format("a byte 0 at offset {}", zero),
           "binary data has such bytes, and text in UTF-16, which `iconv -f UTF-16 -t UTF-8` rewrites; `tr -d '\\0'` "
           "removes them from other text");
  }
}

// Content whose beginning is looked at before it is handed out.
class TextInput final : public InputStream {
 public:
  TextInput(std::string path, std::unique_ptr<InputStream> content)
      : path_(std::move(path)), content_(std::move(content)) {}

  std::size_t read(char* to, std::size_t bytes) override {
    if (!begun_) begin();
    if (given_ == head_.size()) return at_end_ ? 0 : content_->read(to, bytes);
    const std::size_t got = std::min(bytes, head_.size() - given_);
    std::copy_n(head_.data() + given_, got, to);
    given_ += got;
    return got;
  }
  Size skip(Size bytes) override {
    if (begun_ || bytes == 0) return InputStream::skip(bytes);
    begun_ = true;  // by those who read the bytes that are left out
    return content_->skip(bytes);
  }
  Size stored_offset() const override { return content_->stored_offset(); }

 private:
  void begin() {
    constexpr std::size_t kHeadBytes = 8192;
    head_.resize(kHeadBytes);
    std::size_t size = 0;
    while (size < kHeadBytes && !at_end_) {
      const std::size_t got = content_->read(head_.data() + size, kHeadBytes - size);
      at_end_ = got == 0;
      size += got;
    }
    head_.resize(size);
    require_utf8_text(path_, head_);
    begun_ = true;
  }

  std::string path_;
  std::unique_ptr<InputStream> content_;
  std::string head_;
  std::size_t given_ = 0;  // bytes of the head
  bool begun_ = false, at_end_ = false;
};

class PlainInput final : public InputStream {
 public:
  explicit PlainInput(std::unique_ptr<StoredBytes> file) : file_(std::move(file)) {}
  std::size_t read(char* to, std::size_t bytes) override { return file_->read(to, bytes); }
  Size skip(Size bytes) override { return file_->seek(bytes) ? bytes : InputStream::skip(bytes); }
  Size stored_offset() const override { return file_->offset(); }

 private:
  std::unique_ptr<StoredBytes> file_;
};

std::string unreadable(const std::string& path, const char* found) {
  return fmt::format("{}: expected a readable file, found: {}", path, found);
}

// Throws by errno.
[[noreturn]] void refuse_unreadable(const std::string& path) {
  throw ReadError("data", unreadable(path, std::strerror(errno)));
}

}  // namespace

StoredBytes::StoredBytes(const std::string& path)
    : path_(path), file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (!file_.is_open() || ::fstat(file_.get(), &status) != 0) refuse_unreadable(path);
  if (S_ISDIR(status.st_mode)) throw DataError("data", unreadable(path, "a folder"));
}

void StoredBytes::require_openable(const std::string& path) {
  struct stat status {};
  const bool is_pipe = ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
  if (!is_pipe) {
    StoredBytes{path};
  } else if (::access(path.c_str(), R_OK) != 0) {
    refuse_unreadable(path);
  }
}

std::size_t StoredBytes::read(char* to, std::size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(file_.get(), to, bytes);
    if (got >= 0) {
      offset_ += got;
      return static_cast<std::size_t>(got);
    }
    if (errno == EINTR) continue;
    throw ReadError("data", fmt::format("{}: offset {}: cannot read: {}", path_, offset_, std::strerror(errno)));
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

std::unique_ptr<InputStream> open_input(const std::string& path, InputContent expected) {
  const std::string name = io::lower_case(path);
  auto file = std::make_unique<StoredBytes>(path);
  std::unique_ptr<InputStream> content;
  if (name.ends_with(".gz")) {
    content = decompress_gzip(std::move(file));
  } else if (name.ends_with(".zst")) {
    content = decompress_zstd(std::move(file));
  } else {
    content = std::make_unique<PlainInput>(std::move(file));
  }
  if (expected == InputContent::bytes) return content;
  return std::make_unique<TextInput>(path, std::move(content));
}

std::string read_whole_input(const std::string& path) {
  const auto input = open_input(path);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 20);
  while (const std::size_t got = input->read(piece.data(), piece.size())) text.append(piece.data(), got);
  return text;
}

bool is_json_lines(const std::string& path) {
  const std::string whole = io::lower_case(path);
  std::string_view name = whole;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name.ends_with(".jsonl") || name.ends_with(".ndjson");
}

}  // namespace lt::data
