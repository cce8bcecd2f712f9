// An append-only file of records, each of which is in it whole or not at all, even if a write fails half-way. All
// functions throw DataError with the file and the system's reason.
#pragma once

#include <sys/types.h>

#include <string>

#include "io/descriptor.h"

namespace lt {

// All functions throw DataError with the file and the system's reason.
class AppendFile {
 public:
  // Opens the file at its end, or creates it.
  explicit AppendFile(const std::string& path);

  // If it throws, the file is unchanged; bytes that a broken disk could not remove are removed by the next call.
  void append(const std::string& record);
  void sync();            // to disk
  void cut(off_t bytes);  // to its first `bytes` bytes
  off_t size() const { return size_; }
  // Reads `count` bytes from `begin` on.
  std::string read(off_t begin, std::size_t count) const;

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::string path_;
  Descriptor file_;
  off_t size_ = 0;     // of whole records
  bool torn_ = false;  // there may be bytes after them
};

}  // namespace lt
