// Checks, before the work starts, that a command will be able to write its output file. Call it on the rank that writes
// the file.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "libtrain/error.h"

namespace lt::launch {

// Throws UsageError, which names the option, unless `path` is a new or regular file in an existing, writable folder.
inline void require_output(const char* option, const std::string& path) {
  namespace fs = std::filesystem;
  const auto fail = [&](const std::string& expected, const std::string& found) {
    throw UsageError("usage", fmt::format("{}: expected {}, got {}", option, expected, found));
  };
  std::error_code none;
  if (path.empty()) fail("the name of a file", "none");
  if (fs::is_directory(path, none)) fail("a file", "the folder " + path);
  if (fs::is_other(path, none)) fail("a regular file", "the device, pipe or socket " + path);
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (!fs::is_directory(folder, none)) fail("a file in an existing folder", path);
  if (::access(folder.c_str(), W_OK) != 0) fail("a file in a folder that can be written to", path);
}

}  // namespace lt::launch
