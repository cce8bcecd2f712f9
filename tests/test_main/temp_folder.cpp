// Makes and removes the folder of a test.
#include "test_main/temp_folder.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace fs = std::filesystem;

namespace lt_test {

std::string read_text(const fs::path& path) {
  const std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write_text(const fs::path& path, std::string_view content) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "libtrain-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempFolder::write(std::string_view name, std::string_view content) const {
  write_text(path_ / name, content);
  return *this / name;
}

std::string TempFolder::read(std::string_view name) const { return read_text(path_ / name); }

}  // namespace lt_test
