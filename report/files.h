// Reads files of a run's folder as text. A missing or unreadable file is not an error here.
#pragma once

#include <optional>
#include <string>

namespace lt::report {

// nullopt for a file that is missing, not regular, or longer than `at_most`.
std::optional<std::string> file_text(const std::string& path, std::size_t at_most = std::string::npos);

// The last `bytes` of a file; empty for one that is missing or not regular.
std::string last_text(const std::string& path, std::size_t bytes);

}  // namespace lt::report
