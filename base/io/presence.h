// Checks if a file or folder exists. A dangling link is an error and not a missing file, because its target was lost:
// for example, the disk is not mounted or a cache was deleted.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "libtrain/error.h"

namespace lt::io {

// Returns the status of `path`; not_found if it does not exist. Throws DataError of `component` if `path` is a dangling
// link or its status cannot be read. Messages call the path `name`; an empty `name` stands for the path itself.
inline std::filesystem::file_status status_of(const std::string& component, const std::filesystem::path& path,
                                              const std::string& name = "") {
  namespace fs = std::filesystem;
  const std::string subject = name.empty() ? path.string() : name;
  std::error_code failed, unread;
  const fs::file_status status = fs::status(path, failed);
  if (!fs::status_known(status)) throw DataError(component, subject + ": cannot be looked at: " + failed.message());
  if (!fs::exists(status) && fs::is_symlink(fs::symlink_status(path, unread))) {
    throw DataError(component,
                    subject + ": expected a file or folder, found a link to " +
                        fs::read_symlink(path, unread).string() + ", which is not there",
                    "bring back what the link leads to, or remove the link");
  }
  return status;
}

// True if `path` exists. Throws like status_of().
inline bool is_present(const std::string& component, const std::filesystem::path& path, const std::string& name = "") {
  return std::filesystem::exists(status_of(component, path, name));
}

}  // namespace lt::io
