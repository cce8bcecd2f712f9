// Reads files and folders that may disappear during the read, such as those in /proc. A failure ends the read; nothing
// throws.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "io/whole_file.h"

namespace lt::io {

inline std::string readable_text(const std::filesystem::path& path) { return read_file(path.string()).text; }

inline std::vector<std::filesystem::path> readable_entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code failed;
  // Not a range-based loop, since its ++ throws.
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    entries.push_back(at->path());
  }
  return entries;
}

}  // namespace lt::io
