// Reading files and folders that may have been removed. A failure does not throw.
#include "io/readable.h"

#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using lt_test::TempFolder;

TEST_CASE("readable: a file's text, and nothing where reading fails", "[readable]") {
  const TempFolder folder;
  folder.write("text", "one\ntwo");
  CHECK(lt::io::readable_text(folder / "text") == "one\ntwo");
  CHECK(lt::io::readable_text(folder / "missing").empty());
  CHECK(lt::io::readable_text(folder / "")
            .empty());  // opens like a file, but the first read fails, as in /proc of an ended process
}

TEST_CASE("readable: a folder's entries, and none where there is no folder", "[readable]") {
  const TempFolder folder;
  folder.write("text", "");
  CHECK(lt::io::readable_entries(folder / "") == std::vector<std::filesystem::path>{folder / "text"});
  CHECK(lt::io::readable_entries(folder / "text").empty());
  CHECK(lt::io::readable_entries(folder / "missing").empty());
}
