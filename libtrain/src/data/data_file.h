// A data file, read by ranges with pread(2). So several threads may read at once, a file that shrinks causes an error
// instead of a signal, and a remote file system transfers only the requested ranges.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "io/descriptor.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::data {

class DataFile {
 public:
  // Opens a regular file. Throws DataError: "<path>: expected a readable <kind>, found: ...". `hint` is the hint of
  // errors in the content. The hint for a missing file with a relative path names the working folder.
  DataFile(std::string path, const char* kind, const char* hint);

  const std::string& path() const { return path_; }
  Size size() const { return size_; }
  // Throws DataError if a part of [offset, offset + bytes) is missing or cannot be read.
  void read(Size offset, Size bytes, void* out) const;

  // A hash of `before`, the size, the first and the last 4 KiB, and 14 pieces of 4 KiB between them.
  std::uint64_t digest(std::uint64_t before) const;

  // Throws DataError unless the file has `bytes` bytes. `what` names their content in the error.
  void require_size(Size bytes, const std::string& what) const;
  // Throws DataError: "<path>: offset <offset>: <what>".
  template <class... Args>
  [[noreturn]] void fail(Size offset, fmt::format_string<Args...> what, Args&&... args) const {
    throw DataError(
        "data", fmt::format("{}: offset {}: {}", path_, offset, fmt::format(what, std::forward<Args>(args)...)), hint_);
  }

 private:
  std::string path_;
  const char* hint_;
  io::Descriptor file_;
  Size size_ = 0;
};

}  // namespace lt::data
