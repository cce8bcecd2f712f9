// The files of checkpoints. Functions with `durably` in their names return only when the bytes are on disk. All
// functions throw DataError with the file's last path component and the system's reason.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/descriptor.h"
#include "io/file.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::checkpoint {

// Progress is counted at least once per this many bytes written; even a slow disk writes them within seconds.
constexpr Size kPieceBytes = Size{64} << 20;

// Starts writing the file's data to the disk, piece by piece, and counts progress. The data is durable only after
// sync().
void write_out(const io::CheckedFile& file);

// Opens a regular file for reading. Anything else, even a pipe without a writer, is refused at once.
io::CheckedFile open_regular(const std::filesystem::path& file);
// Creates a file for writing; it must not exist.
io::CheckedFile create_file(const std::filesystem::path& file);

// Asks the system to start writing a range to the disk, so that a later sync waits for less. Does nothing if the range
// is small or the file system has no such call. Returns false, with errno set, if the disk failed.
bool begin_write_out(const io::Descriptor& file, Size begin, Size bytes);

Size file_bytes(const std::filesystem::path& file);
void sync_file(const std::filesystem::path& file);
void sync_folder(const std::filesystem::path& folder);
// Removes a file, a link, or a folder and everything in it. Counts progress with each entry, because a slow file system
// takes long for many.
void remove_tree(const std::filesystem::path& path);
// Refuses a file of more than `limit` bytes before reading any.
std::string read_text(const std::filesystem::path& file, Size limit);
// Creates the file; it must not exist.
void write_durably(const std::filesystem::path& file, std::string_view text);
// Renames within one folder, then fsyncs the folder.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
// Throws unless `folder` does not exist or is empty. Errors name the whole path; their hint is for --out.
void require_new_or_empty(const std::filesystem::path& folder);
// Like mkdir -p, and fsyncs each new folder's parent. Errors name the whole path.
void make_folders_durably(const std::filesystem::path& folder);

// Runs `body`. Its DataErrors have messages that start with a file's name; they are thrown again with the folder's path
// in front. Exceptions of the standard library become DataErrors too, so that collectively() sees them.
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

// Runs `body`. Its DataErrors have messages that name no file; they are thrown again with "<name>: " in front.
template <class Body>
auto in_file(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (const DataError& e) {
    throw DataError("checkpoint", name + ": " + e.what(), e.hint());
  }
}

}  // namespace lt::checkpoint
