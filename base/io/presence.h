// Whether a file or folder that may be missing is there. A link to nothing does not count as missing: what it leads to
// is lost, on a disk that is not mounted or in a cache that was cut short.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "libtrain/error.h"

namespace lt::io {

// The status of `path`; not_found if nothing has that name. Throws DataError of this component for a link to nothing,
// and if the system does not say. Messages name the path by `name`; empty: as it is.
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

// Whether anything has the name. Throws as status_of() does.
inline bool is_present(const std::string& component, const std::filesystem::path& path, const std::string& name = "") {
  return std::filesystem::exists(status_of(component, path, name));
}

}  // namespace lt::io
