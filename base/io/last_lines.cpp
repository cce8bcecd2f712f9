// Reads the file in pieces, starting with the last.
#include "io/last_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace lt::io {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;  // bytes

}  // namespace

LastLines::LastLines(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (file_.is_open() && ::fstat(file_.get(), &status) == 0) read_begin_ = static_cast<std::size_t>(status.st_size);
  ended_ = !read_more();
  if (!ended_ && read_.back() == '\n') read_.pop_back();  // ends the last line
}

bool LastLines::read_more() {
  const std::size_t bytes = std::min(kPiece, read_begin_);
  std::string piece(bytes, '\0');
  if (bytes == 0 || ::pread(file_.get(), piece.data(), bytes, static_cast<off_t>(read_begin_ - bytes)) !=
                        static_cast<ssize_t>(bytes)) {
    return false;
  }
  read_begin_ -= bytes;
  read_.insert(0, piece);
  return true;
}

std::optional<LastLines::Line> LastLines::next() {
  if (ended_) return std::nullopt;
  std::size_t newline = read_.rfind('\n');
  for (; newline == std::string::npos && read_begin_ > 0; newline = read_.rfind('\n')) {
    if (!read_more()) return ended_ = true, std::nullopt;
  }
  if (newline == std::string::npos) return ended_ = true, Line{read_, 0};
  Line line{read_.substr(newline + 1), read_begin_ + newline + 1};
  read_.resize(newline);
  return line;
}

}  // namespace lt::io
