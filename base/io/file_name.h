// Names beside a file or folder that a user named, perhaps as long as the file system allows.
#pragma once

#include <climits>
#include <filesystem>
#include <string>
#include <string_view>

namespace lt::io {

// `path` with `suffix` at the end of its name. A name that would become too long loses its last characters.
inline std::filesystem::path with_suffix(const std::filesystem::path& path, std::string_view suffix) {
  std::string name = path.filename().string();
  if (name.size() + suffix.size() > NAME_MAX) {
    std::size_t kept = NAME_MAX - suffix.size();
    while (kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xc0) == 0x80) --kept;  // within a character of UTF-8
    name.resize(kept);
  }
  return path.parent_path() / name.append(suffix);
}

}  // namespace lt::io
