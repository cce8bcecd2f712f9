// An append-only file of records. Invariant: it holds each record whole or not at all, even if a write fails half-way.
#pragma once

#include <sys/types.h>

#include <string>

#include "io/descriptor.h"

namespace lt {

// All functions throw DataError with the file's name and the system's reason.
class AppendFile {
 public:
  // Opens the file at its end; creates it if it does not exist.
  explicit AppendFile(const std::string& path);

  // If this throws, the file is unchanged. If truncating failed too, the next call removes the partial record.
  void append(const std::string& record);
  void sync();            // flushes the file to disk
  void cut(off_t bytes);  // keeps only the first `bytes` bytes
  off_t size() const { return size_; }
  // Reads `count` bytes at offset `begin`.
  std::string read(off_t begin, std::size_t count) const;

 private:
  [[noreturn]] void fail(const char* what, int error) const;

  std::string path_;
  Descriptor file_;
  off_t size_ = 0;     // bytes of whole records
  bool torn_ = false;  // a partial record may follow them
};

}  // namespace lt
