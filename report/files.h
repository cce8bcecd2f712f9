// Reads files of a run's folder as text. A missing or unreadable file is not an error here.
#pragma once

#include <optional>
#include <string>

namespace lt::report {

// Returns nullopt if the file is missing, unreadable, not regular, or longer than `at_most` bytes.
std::optional<std::string> file_text(const std::string& path, std::size_t at_most = std::string::npos);

// Returns the last `bytes` bytes of a file; empty if it is missing, unreadable or not regular.
std::string last_text(const std::string& path, std::size_t bytes);

}  // namespace lt::report
