// Reads the lines of a text file from the last one backwards, for callers that need only the end of the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "io/descriptor.h"

namespace lt::io {

class LastLines {
 public:
  // An unreadable file has no lines.
  explicit LastLines(const std::string& path);

  struct Line {
    std::string text;
    std::size_t begin;  // offset in the file, bytes
  };
  // Returns the line before the previous result, or nullopt at the beginning of the file or if a read fails.
  std::optional<Line> next();

 private:
  bool read_more();

  Descriptor file_;
  std::string read_;  // the file's text from read_begin_ on, without the lines already returned
  std::size_t read_begin_ = 0;
  bool ended_;
};

}  // namespace lt::io
