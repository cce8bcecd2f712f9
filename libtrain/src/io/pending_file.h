// A file that is written beside its final name and renamed when it is whole, so that a reader sees all of it or none.
#pragma once

#include <cstddef>
#include <string>

#include "io/descriptor.h"
#include "io/entropy.h"

namespace lt {

// All functions throw DataError, with the component `component`, naming the file and the system's reason.
class PendingFile {
 public:
  // Until it is committed its name ends in ".tmp-" and `mark`, and nothing else may have that name.
  PendingFile(const std::string& component, const std::string& path, const std::string& mark = random_hex(16));
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

  std::string component_, path_, pending_;
  Descriptor file_;
  bool committed_ = false;
};

// Removes what writers of `path` that were killed have left. Nobody writes it now.
void remove_pending(const std::string& path);

// The file `path` with this text, durably, or as it was.
void write_whole_file(const std::string& component, const std::string& path, const std::string& text);

}  // namespace lt
