// A file that is written under a temporary name and renamed when complete, so that a reader sees all of it or nothing.
#pragma once

#include <cstddef>
#include <string>

#include "io/descriptor.h"
#include "io/entropy.h"

namespace lt {

// All functions throw DataError with the component `component`, the file's name and the system's reason.
class PendingFile {
 public:
  static constexpr std::size_t kMarkDigits = 16;

  // Until it is committed, its name ends in ".tmp-" and `mark`, which must be unique. Refuses a path that is a device,
  // pipe or socket.
  PendingFile(const std::string& component, const std::string& path, const std::string& mark = random_hex(kMarkDigits));
  // Removes an uncommitted file.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Flushes the bytes to disk. Nothing can be written afterwards.
  void finish();
  // Calls finish() and durably gives the file its final name.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string component_, path_, pending_;
  Descriptor file_;
  bool committed_ = false;
};

// Removes the temporary files with random marks that killed writers of `path` left behind. Nobody may be writing `path`
// meanwhile.
void remove_pending(const std::string& path);

// Writes the file `path` durably. If writing fails, the old file stays. Throws DataError as PendingFile does.
void write_whole_file(const std::string& component, const std::string& path, const std::string& text);

}  // namespace lt
