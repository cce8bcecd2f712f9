// A temporary folder for the files of one test.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lt_test {

// Reads a whole file; empty if there is none.
std::string read_text(const std::filesystem::path& path);
// Creates the parent folders too. Throws std::runtime_error if it fails.
void write_text(const std::filesystem::path& path, std::string_view content);

// A new empty folder. The destructor removes it with its contents.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string text() const { return path_.string(); }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

  // Writes a file, creates its parent folders, and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  std::string read(std::string_view name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace lt_test
