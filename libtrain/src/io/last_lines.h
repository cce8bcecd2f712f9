// The lines of a text file from its last one backwards, for files of which only the end is wanted.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "io/descriptor.h"

namespace lt {

class LastLines {
 public:
  // A file that cannot be read has no lines.
  explicit LastLines(const std::string& path);

  struct Line {
    std::string text;
    std::size_t begin;  // in the file
  };
  // The line before the one that was given last; none at the beginning of the file, or where a read fails.
  std::optional<Line> next();

 private:
  bool read_more();

  Descriptor file_;
  std::string read_;  // of the file from read_begin_ on, without the lines that were given
  std::size_t read_begin_ = 0;
  bool ended_;
};

}  // namespace lt
