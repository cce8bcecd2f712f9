// Opens regular files only, because opening a pipe would block.
#include "report/files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "io/whole_file.h"

namespace lt::report {

std::optional<std::string> file_text(const std::string& path, std::size_t at_most) {
  io::FileText file = io::read_file(path, true, at_most);
  if (!file.problem.empty()) return std::nullopt;
  return std::move(file.text);
}

std::string last_text(const std::string& path, std::size_t bytes) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return {};  // opening a pipe would wait
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  std::string text(std::min(static_cast<std::size_t>(size), bytes), '\0');
  file.seekg(size - static_cast<std::streamoff>(text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace lt::report
