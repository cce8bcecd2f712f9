// Lists of input files as users write them: paths and glob patterns.
#pragma once

#include <string>
#include <vector>

namespace lt {

// Paths in the order given; a POSIX glob pattern stands for its matches in byte order. A path that exists is taken as
// it is, whatever characters it has. Throws DataError for a pattern that matches nothing.
std::vector<std::string> expand_files(const std::vector<std::string>& files);

}  // namespace lt
