// Reads a whole file as text.
#pragma once

#include <cstddef>
#include <string>

namespace lt::io {

struct FileText {
  std::string text;
  std::string problem;  // empty if `text` is complete, else the reason, such as "a folder"
  int error = 0;        // errno, if the system refused to open or read the file
};

// Reads a file, or a pipe to its end. With `only_regular`, refuses pipes and devices without waiting for them. Refuses
// more than `most_bytes` bytes.
FileText read_file(const std::string& path, bool only_regular = false, std::size_t most_bytes = std::string::npos);

// Like read_file(), but returns the text and throws DataError of `component` if the file cannot be read.
std::string read_whole_file(const std::string& component, const std::string& path);

}  // namespace lt::io
