// Writes files and checks every call. CheckedFile is an open file, PendingFile replaces a file once it is complete, and
// AppendFile holds records. Errors are DataErrors of the given component: "<file>: cannot write: No space left on
// device".
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "io/descriptor.h"
#include "io/entropy.h"
#include "libtrain/dtype.h"

namespace lt::io {

// Creates a file for reading and writing. It must not exist yet: an existing file or link of this name is never
// followed or overwritten. On failure the result is not open, and errno holds the reason. The caller must rename the
// file to its final name or remove it.
Descriptor create_new(const std::string& path, unsigned mode = 0644);

// Flushes the names in a folder to disk. On failure returns false and sets errno.
bool sync_folder(const std::filesystem::path& folder);

// An open file and the name that errors give it. All functions throw DataError.
class CheckedFile {
 public:
  // Throws "<name>: <failure>: <text of errno>" if `opened` is not open.
  CheckedFile(std::string component, std::string name, Descriptor opened, const char* failure = "cannot open");

  const Descriptor& descriptor() const { return file_; }
  // Throws unless the file is a regular one.
  Size bytes() const;
  void read_at(void* data, Size bytes, Size offset) const;
  // Writes at the file's position, or at its end if it was opened to append.
  void write(const void* data, std::size_t bytes) const;
  void truncate(Size bytes) const;
  void sync() const;
  // Closes the file and throws on errors, which the destructor cannot.
  void close();
  [[noreturn]] void fail(const char* what) const;  // errno has the reason

 private:
  std::string component_, name_;
  Descriptor file_;
};

// A file that is written under a temporary name and renamed when complete, so that a reader sees all of it or nothing.
class PendingFile {
 public:
  static constexpr std::size_t kMarkDigits = 16;

  // Until commit(), the file's name is `path`.tmp-`mark`; `mark` must be unique. Throws if `path` is a device, pipe or
  // socket.
  PendingFile(const std::string& component, const std::string& path, const std::string& mark = random_hex(kMarkDigits));
  // Removes an uncommitted file.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, std::size_t bytes) { file_.write(data, bytes); }
  // Flushes the bytes to disk. Nothing can be written afterwards.
  void finish();
  // Calls finish() and durably gives the file its final name.
  void commit();

 private:
  std::string path_, pending_;
  CheckedFile file_;
  bool committed_ = false;
};

// Removes the temporary files with random marks that killed writers of `path` left behind. No process may be writing
// `path` during the call.
void remove_pending(const std::string& path);

// Writes the file `path` durably. If writing fails, the old file stays.
void write_whole_file(const std::string& component, const std::string& path, const std::string& text);

// An append-only file of records. Invariant: each record is in the file completely or not at all, even if a write fails
// half-way.
class AppendFile {
 public:
  // Opens the file at its end; creates it if it does not exist.
  AppendFile(const std::string& component, const std::string& path);

  // If this throws, the file is unchanged. If truncating failed too, the next call removes the partial record.
  void append(const std::string& record);
  void sync() const { file_.sync(); }
  void cut(Size bytes);  // keeps only the first `bytes` bytes
  Size size() const { return size_; }
  // Reads `count` bytes at offset `begin`.
  std::string read(Size begin, Size count) const;

 private:
  CheckedFile file_;
  Size size_;          // bytes of whole records
  bool torn_ = false;  // a partial record may follow them
};

}  // namespace lt::io
