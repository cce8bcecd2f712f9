// New files: what is planted under a new file's name, a link above all, is never followed or overwritten. And their
// names' way to the disk.
#pragma once

#include <filesystem>
#include <string>

#include "io/descriptor.h"

namespace lt {

// A file that was not there, for reading and writing; none: errno says why. The caller gives it its name or removes it.
Descriptor create_new(const std::string& path, unsigned mode = 0644);

// Brings the names in a folder to disk; false: errno says why not.
bool sync_folder(const std::filesystem::path& folder);

}  // namespace lt
