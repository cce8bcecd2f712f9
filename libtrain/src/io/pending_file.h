// A file that is written under a temporary name and renamed when complete, so that a reader sees all of it or nothing.
// All functions throw DataError, with the component `component`, that names the file and the system's reason.
#pragma once

#include <cstddef>
#include <string>

#include "io/descriptor.h"
#include "io/entropy.h"

namespace lt {

// All functions throw DataError, with the component `component`, naming the file and the system's reason.
class PendingFile {
 public:
  // Until it is committed, its name ends in ".tmp-" and `mark`, which must be unique.
  PendingFile(const std::string& component, const std::string& path, const std::string& mark = random_hex(16));
  // Removes an uncommitted file.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Brings the bytes to disk. Nothing can be written afterwards.
  void finish();
  // Calls finish() and gives the file its name, durably.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string component_, path_, pending_;
  Descriptor file_;
  bool committed_ = false;
};

// Removes the leftovers of killed writers of `path`. Nobody may be writing it.
void remove_pending(const std::string& path);

// Writes the file `path` durably; on failure it stays as it was.
void write_whole_file(const std::string& component, const std::string& path, const std::string& text);

}  // namespace lt
