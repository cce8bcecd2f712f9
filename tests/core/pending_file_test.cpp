// Files that take their name when they are whole: nothing that was planted beside them is followed or overwritten.
#include "core/pending_file.h"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

#include "core/new_file.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "lt-pending-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
  fs::path path;
};

}  // namespace

TEST_CASE("pending file: a link under the name that this process would choose is left alone", "[core]") {
  const Folder folder;
  const std::string path = (folder.path / "config.toml").string(), victim = (folder.path / "victim").string();
  write_whole_file("record", victim, "mine");
  fs::create_symlink(victim, path + ".tmp-" + std::to_string(::getpid()));
  write_whole_file("record", path, "text");
  CHECK(read_whole_file("record", path) == "text");
  CHECK(read_whole_file("record", victim) == "mine");
}

TEST_CASE("pending file: two of one name do not meet, and what is not committed is gone", "[core]") {
  const Folder folder;
  const std::string path = (folder.path / "a").string();
  {
    PendingFile first("record", path), second("record", path);
    CHECK(folder.files() == 2);
    first.write("first", 5);
    second.write("second", 6);
    second.commit();
  }
  CHECK(folder.files() == 1);
  CHECK(read_whole_file("record", path) == "second");
  CHECK_THROWS_AS(PendingFile("record", (folder.path / "none/a").string()), DataError);
}

TEST_CASE("new file: names differ", "[core]") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(random_hex(16));
  CHECK(names.size() == 1000);
  CHECK(names.begin()->find_first_not_of("0123456789abcdef") == std::string::npos);
}
