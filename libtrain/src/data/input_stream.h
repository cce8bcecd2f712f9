// The bytes of an input of `prepare`: a file, plain or compressed, or standard input. Invariant: memory does not depend
// on the length of the input.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "io/descriptor.h"
#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::data {

// Thrown if the system cannot open or read a file. Its content may be valid.
struct ReadError : DataError {
  using DataError::DataError;
};

// The bytes of a file as they are stored. Errors name the file.
class StoredBytes {
 public:
  // "-": standard input. Throws ReadError, or DataError for a folder.
  explicit StoredBytes(const std::string& path);
  // Throws the constructor's errors. Does not open a named pipe, because closing it again could end its writer.
  static void require_openable(const std::string& path);

  // Reads up to `bytes` bytes; 0 at the end. Throws ReadError.
  std::size_t read(char* to, std::size_t bytes);
  // Skips the next bytes. Returns false, and skips nothing, if that is impossible without reading.
  bool seek(Size bytes);
  // Bytes that were read or skipped.
  Size offset() const { return offset_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  io::Descriptor file_;
  Size offset_ = 0;
};

class InputStream {
 public:
  virtual ~InputStream() = default;
  // Reads up to `bytes` bytes of content; 0 at the end. Throws DataError (ReadError included) that names file and
  // offset.
  virtual std::size_t read(char* to, std::size_t bytes) = 0;
  // Skips up to `bytes` bytes of content; returns how many there were.
  virtual Size skip(Size bytes);
  // How many bytes of the file have been read.
  virtual Size stored_offset() const = 0;
};

enum class InputContent { text, bytes };
// Opens a file and decompresses it if its name ends in .gz or .zst, in either case. If text is expected, the first
// read() throws DataError if the content does not begin like UTF-8 text: compressed, binary, or in another encoding.
std::unique_ptr<InputStream> open_input(const std::string& path, InputContent expected = InputContent::text);
// Decompress the content of `file`.
std::unique_ptr<InputStream> decompress_gzip(std::unique_ptr<StoredBytes> file);
std::unique_ptr<InputStream> decompress_zstd(std::unique_ptr<StoredBytes> file);
// Returns the whole content of a text file, opened as open_input() does. Throws DataError.
std::string read_whole_input(const std::string& path);
// True if the input's name, without .gz or .zst, ends in .jsonl or .ndjson, in either case: each line is then a JSON
// value.
bool is_json_lines(const std::string& path);

}  // namespace lt::data
