// Resolves links in paths and compares paths.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace lt::io {

// Returns the absolute path, with links resolved in the leading part that exists. Never throws.
inline std::string canonical_path(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown).string();
}

// Returns the new location of `path`, which moved together with the folder `before`, now at `now`.
inline std::filesystem::path moved_path(const std::string& path, const std::string& before,
                                        const std::filesystem::path& now) {
  return (now / std::filesystem::path(path).lexically_relative(before)).lexically_normal();
}

// True if `path` is `folder` or lies in it.
inline bool is_within(const std::string& path, const std::string& folder) {
  const std::filesystem::path inner = canonical_path(path), outer = canonical_path(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace lt::io
