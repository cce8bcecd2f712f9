// Files as text.
#include "report/files.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace lt::report {

namespace fs = std::filesystem;

std::optional<std::string> file_text(const std::string& path, std::size_t at_most) {
  std::error_code none;
  if (!fs::is_regular_file(path, none) || fs::file_size(path, none) > at_most) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace lt::report
