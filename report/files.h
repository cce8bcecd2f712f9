// Files of a run's folder as text; what is missing or cannot be read is no error here.
#pragma once

#include <optional>
#include <string>

namespace lt::report {

// Nothing for a file that is not there, is no regular file, or is longer than `at_most`.
std::optional<std::string> file_text(const std::string& path, std::size_t at_most = std::string::npos);

}  // namespace lt::report
