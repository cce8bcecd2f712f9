// Expands lists of input files as users write them: paths and glob patterns.
#pragma once

#include <string>
#include <vector>

namespace lt::data {

// Returns the paths in the given order. Replaces a POSIX glob pattern by its matches in byte order, unless a file of
// that exact name exists. Throws DataError if a pattern matches nothing, or a folder cannot be read.
std::vector<std::string> expand_files(const std::vector<std::string>& files);

}  // namespace lt::data
