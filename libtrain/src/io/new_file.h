// Creates new files and makes names in folders durable. Invariant: an existing file or link of the same name is never
// followed or overwritten.
#pragma once

#include <filesystem>
#include <string>

#include "io/descriptor.h"

namespace lt {

// Creates a file for reading and writing. It must not exist yet. On failure the result is not open, and errno holds the
// reason. The caller must rename the file to its final name or remove it.
Descriptor create_new(const std::string& path, unsigned mode = 0644);

// Flushes the names in a folder to disk. On failure returns false and sets errno.
bool sync_folder(const std::filesystem::path& folder);

}  // namespace lt
