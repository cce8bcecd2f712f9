// Creates new files: an existing file or link under the name is never followed or overwritten. Makes names in folders
// durable.
#pragma once

#include <filesystem>
#include <string>

#include "io/descriptor.h"

namespace lt {

// Creates a file for reading and writing; it must not exist. Without a result errno says why. The caller gives it its
// final name or removes it.
Descriptor create_new(const std::string& path, unsigned mode = 0644);

// Brings the names in a folder to disk. Returns false, with errno set, on failure.
bool sync_folder(const std::filesystem::path& folder);

}  // namespace lt
