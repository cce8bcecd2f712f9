// Reads the lines of a text file from its end.
#include "io/last_lines.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::io;

namespace {

namespace fs = std::filesystem;

struct File {
  explicit File(const std::string& text) : path(folder.write("lines", text)) {}
  lt_test::TempFolder folder;
  fs::path path;
};

std::vector<std::string> lines_of(const std::string& text) {
  const File file(text);
  LastLines lines(file.path);
  std::vector<std::string> found;
  while (const auto line = lines.next()) {
    CHECK(text.compare(line->begin, line->text.size(), line->text) == 0);
    found.push_back(line->text);
  }
  return found;
}

}  // namespace

TEST_CASE("last lines: every line once, the last one first", "[io]") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == Lines{""});
  CHECK(lines_of("one") == Lines{"one"});
  CHECK(lines_of("one\n\ncut") == Lines{"cut", "", "one"});
  const std::string longer(200'000, 'x'), piece((std::size_t{64} << 10) - 1, 'y');
  CHECK(lines_of(longer + "\n" + piece + "\n" + piece + "\n") == Lines{piece, piece, longer});
  CHECK_FALSE(LastLines("/nonexistent/file").next());
}

TEST_CASE("last lines: the length of the file does not matter", "[io]") {
  const File file("");
  fs::resize_file(file.path, std::uintmax_t{4} << 30);  // zeros that take no space on disk
  std::ofstream(file.path, std::ios::app) << "\nrow\n";
  const auto begin = std::chrono::steady_clock::now();
  CHECK(LastLines(file.path).next()->text == "row");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500));
}
