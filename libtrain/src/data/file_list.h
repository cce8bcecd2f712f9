// Expands lists of input files as users write them: paths and glob patterns.
#pragma once

#include <string>
#include <vector>

namespace lt::data {

// Returns the paths in the order given. A POSIX glob pattern is replaced by its matches in byte order; a path that
// exists is taken literally, whatever characters it has. Throws DataError for a pattern that matches
// nothing, or a folder that cannot be read.
std::vector<std::string> expand_files(const std::vector<std::string>& files);

}  // namespace lt::data
