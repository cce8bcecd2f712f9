// POSIX files with every return code checked. Nothing here reports success before the bytes are on the disk where the
// name says durably. All throw DataError naming the file's last component and the system's reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/descriptor.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::checkpoint {

// Progress is counted at least as often as so much is written: a slow disk takes it in seconds.
constexpr Size kPieceBytes = Size{64} << 20;

// A file that stands open under a name.
class OpenFile {
 public:
  // Throws where `opened` is not open; `path` names it in errors.
  OpenFile(const std::filesystem::path& path, Descriptor opened);

  // Regular files only.
  Size bytes() const;
  void read_at(void* data, Size bytes, Size offset) const;
  void write(const void* data, std::size_t bytes) const;
  // Hands what was written to the disk, piece by piece, and counts progress. It is not durable before sync().
  void write_out() const;
  void sync() const;
  // Throws what the destructor cannot.
  void close();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string name_;
  Descriptor file_;
};

// A regular file for reading. What else stands there, a pipe without a writer too, is refused at once.
OpenFile open_regular(const std::filesystem::path& file);
// A file for writing that was not there.
OpenFile create_file(const std::filesystem::path& file);

// Has the system write a range to the disk from now on, so that a later sync waits for less. Does nothing for a small
// range, or where the file system has no such call. False, with errno, where the disk failed.
bool begin_write_out(const Descriptor& file, Size begin, Size bytes);

Size file_bytes(const std::filesystem::path& file);
void sync_file(const std::filesystem::path& file);
void sync_folder(const std::filesystem::path& folder);
// Refuses a file of more than `limit` bytes before it reads any.
std::string read_text(const std::filesystem::path& file, Size limit);
// A file that was not there.
void write_durably(const std::filesystem::path& file, std::string_view text);
// Renames within one folder, then fsyncs the folder.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
// mkdir -p; each new folder's parent is fsynced. Errors name the whole path.
void make_folders_durably(const std::filesystem::path& folder);

// Runs `body`; a DataError inside, whose message starts with a file's name, becomes one that starts with the folder's
// path. Exceptions of the standard library become DataErrors too, so that collectively() sees them.
template <class Body>
auto within(const std::filesystem::path& folder, Body&& body) {
  try {
    return body();
  } catch (const DataError& e) {
    throw DataError("checkpoint", (folder / e.what()).string(), e.hint());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw DataError("checkpoint", folder.string() + ": " + e.what());
  }
}

// Runs `body`; a DataError inside, whose message names no file, becomes one that starts with "<name>: ".
template <class Body>
auto in_file(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (const DataError& e) {
    throw DataError("checkpoint", name + ": " + e.what(), e.hint());
  }
}

}  // namespace lt::checkpoint
