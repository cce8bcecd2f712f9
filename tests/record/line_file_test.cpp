// Files of lines on a disk that fills up: no torn line, the right reason, and a report of the lost lines.
#include "record/line_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "libtrain/error.h"
#include "record/lossy_lines.h"
#include "test_main/catch.h"
#include "test_main/resource_limit.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::recorder;
using lt_test::FileSizeLimit;

namespace {

namespace fs = std::filesystem;

struct TempFile {
  std::string path() const { return folder / "lines"; }
  std::string text() const { return folder.read("lines"); }
  lt_test::TempFolder folder;
};

std::string line_of_gap(const LostRows::Gap& gap) {
  return "lost " + std::to_string(gap.rows) + " of " + std::to_string(gap.first_step) + ".." +
         std::to_string(gap.last_step);
}

}  // namespace

TEST_CASE("line file: a line that does not fit is not in it in part, and the reason is the system's", "[record]") {
  const TempFile temp;
  LineFile file(temp.path());
  file.append("0123456789");
  {
    const FileSizeLimit full(15);
    errno = 0;
    CHECK_THROWS_WITH(file.append("abcdefghij"), temp.path() + ": cannot write: File too large");
    CHECK(temp.text() == "0123456789\n");
    file.append("xyz");  // this fits
  }
  file.append("abcdefghij");
  CHECK(temp.text() == "0123456789\nxyz\nabcdefghij\n");
}

TEST_CASE("line file: a torn last line is cut off when it is opened", "[record]") {
  for (const std::string& whole : {std::string(), std::string("a\n"), std::string(5000, 'b') + "\n"}) {
    for (const std::size_t torn : {0, 1, 5000}) {
      const TempFile temp;
      std::ofstream(temp.path()) << whole + std::string(torn, 'c');
      LineFile(temp.path()).append("d");
      CHECK(temp.text() == whole + "d\n");
    }
  }
}

TEST_CASE("lossy lines: what did not fit is counted and told once there is room", "[record]") {
  const TempFile temp;
  LossyLines lines(temp.path(), line_of_gap);
  lines.append(1, "0123456789");
  {
    const FileSizeLimit full(15);
    for (const Size step : {2, 3, 4}) lines.append(step, "abcdefghij");
    lines.append(5, "xyz");  // would fit, but not with the line of the gap
  }
  lines.append(6, "abc");
  lines.append(7, "def");
  CHECK(temp.text() == "0123456789\nlost 4 of 2..5\nabc\ndef\n");
}

TEST_CASE("lossy lines: a line that must not be lost precedes what can be written first", "[record]") {
  const TempFile temp;
  LossyLines lines(temp.path(), line_of_gap);
  lines.append(18, "step 18");
  {
    const FileSizeLimit full(15);
    lines.append_or_keep("start 4");
    CHECK(temp.text() == "step 18\n");
    lines.append(5, "step 5");  // would fit, but not with the line before it
  }
  lines.append(6, "step 6");
  lines.append_or_keep("start 2");
  lines.append(3, "step 3");
  CHECK(temp.text() == "step 18\nstart 4\nlost 1 of 5..5\nstep 6\nstart 2\nstep 3\n");
}

TEST_CASE("lossy lines: nothing is lost where there is room again before the next line", "[record]") {
  const TempFile temp;
  LossyLines lines(temp.path(), line_of_gap);
  {
    const FileSizeLimit full(4);
    lines.append_or_keep("start 4");
  }
  lines.append(5, "step 5");
  CHECK(temp.text() == "start 4\nstep 5\n");
}
