// The bytes of an input of `prepare`: a file, plain or compressed, or standard input. Invariant: memory does not depend
// on the length of the input.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "io/descriptor.h"
#include "libtrain/dtype.h"

namespace lt {

// The bytes of a file as they are stored. Errors are DataErrors that name the file.
class StoredBytes {
 public:
  // "-": standard input.
  explicit StoredBytes(const std::string& path);

  // Reads up to `bytes` bytes; 0 at the end.
  std::size_t read(char* to, std::size_t bytes);
  // Leaves out the next bytes; false if they cannot be left out without reading.
  bool seek(Size bytes);
  // Bytes that were read.
  Size offset() const { return offset_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
  Size offset_ = 0;
};

class InputStream {
 public:
  virtual ~InputStream() = default;
  // Reads up to `bytes` bytes of content; 0 at the end. Throws DataError that names file and offset.
  virtual std::size_t read(char* to, std::size_t bytes) = 0;
  // Leaves out the next bytes of content; returns how many of them there were.
  virtual Size skip(Size bytes);
  // How many bytes of the file have been read.
  virtual Size stored_offset() const = 0;
};

// By the end of its name: .gz, .zst, or neither.
std::unique_ptr<InputStream> open_input(const std::string& path);
// The same for the two kinds of compressed files.
std::unique_ptr<InputStream> decompress_gzip(std::unique_ptr<StoredBytes> file);
std::unique_ptr<InputStream> decompress_zstd(std::unique_ptr<StoredBytes> file);
// The whole content of a file, decompressed if its name ends so. Throws DataError.
std::string read_whole_input(const std::string& path);
// Whether each line of an input is a JSON value, by its name without .gz and .zst.
bool is_json_lines(const std::string& path);

}  // namespace lt
