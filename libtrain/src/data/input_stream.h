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

// The system does not open or read a file. Its content may be good.
struct ReadError : DataError {
  using DataError::DataError;
};

// The bytes of a file as they are stored. Errors name the file.
class StoredBytes {
 public:
  // "-": standard input. Throws ReadError, and DataError for a folder.
  explicit StoredBytes(const std::string& path);
  // Throws what the constructor would. A named pipe is not opened: its writer could end once that is closed again.
  static void require_openable(const std::string& path);

  // Reads up to `bytes` bytes; 0 at the end. Throws ReadError.
  std::size_t read(char* to, std::size_t bytes);
  // Leaves out the next bytes; false if they cannot be left out without reading.
  bool seek(Size bytes);
  // Bytes that were read.
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
  // Reads up to `bytes` bytes of content; 0 at the end. Throws DataError that names file and offset, ReadError among
  // them.
  virtual std::size_t read(char* to, std::size_t bytes) = 0;
  // Leaves out the next bytes of content; returns how many of them there were.
  virtual Size skip(Size bytes);
  // How many bytes of the file have been read.
  virtual Size stored_offset() const = 0;
};

enum class InputContent { text, bytes };
// By the end of its name: .gz, .zst, or neither. Letters count in either case. Where text is expected, the first read()
// throws DataError for content that begins as text in UTF-8 does not: compressed, binary, or in another encoding.
std::unique_ptr<InputStream> open_input(const std::string& path, InputContent expected = InputContent::text);
// The same for the two kinds of compressed files.
std::unique_ptr<InputStream> decompress_gzip(std::unique_ptr<StoredBytes> file);
std::unique_ptr<InputStream> decompress_zstd(std::unique_ptr<StoredBytes> file);
// The whole content of a file, decompressed if its name ends so. Throws DataError.
std::string read_whole_input(const std::string& path);
// Whether each line of an input is a JSON value: its name without .gz and .zst ends in .jsonl or .ndjson, in either
// case.
bool is_json_lines(const std::string& path);

}  // namespace lt::data
