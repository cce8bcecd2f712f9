// A whole file as text.
#pragma once

#include <cstddef>
#include <string>

namespace lt {

struct FileText {
  std::string text;
  std::string problem;  // empty: `text` is all of it; else what was found in its place: "a folder"
};

// A pipe is read to its end. With `only_regular` it is refused, as a device is, and not waited for.
FileText read_file(const std::string& path, bool only_regular = false, std::size_t most_bytes = std::string::npos);

// read_file() for a caller that cannot go on without it: throws DataError with the component `component`.
std::string read_whole_file(const std::string& component, const std::string& path);

}  // namespace lt
