// Derives a file name from a user's file or folder name, which may already have the maximum length.
#pragma once

#include <climits>
#include <filesystem>
#include <string>
#include <string_view>

namespace lt::io {

// Returns `path` with `suffix` appended to its name. If the result would be too long, drops the name's last characters.
inline std::filesystem::path with_suffix(const std::filesystem::path& path, std::string_view suffix) {
  std::string name = path.filename().string();
  if (name.size() + suffix.size() > NAME_MAX) {
    std::size_t kept = NAME_MAX - suffix.size();
    while (kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xc0) == 0x80) --kept;  // inside a UTF-8 character
    name.resize(kept);
  }
  return path.parent_path() / name.append(suffix);
}

}  // namespace lt::io
