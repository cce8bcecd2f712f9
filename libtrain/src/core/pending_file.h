// A file that is written beside its final name and renamed when it is whole, so that a reader sees all of it or none.
#pragma once

#include <cstddef>
#include <string>

namespace lt {

// All functions throw DataError, of the part `part`, naming the file and the system's reason.
class PendingFile {
 public:
  PendingFile(const std::string& part, const std::string& path);
  // Removes what was not committed.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // The bytes are on the disk; nothing can be written after it.
  void finish();
  // finish(), then the file takes its name, durably.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string part_, path_, pending_;
  int fd_ = -1;
  bool committed_ = false;
};

// All bytes of a regular file.
std::string read_whole_file(const std::string& part, const std::string& path);
// The file `path` with this text, durably, or as it was.
void write_whole_file(const std::string& part, const std::string& path, const std::string& text);

}  // namespace lt
