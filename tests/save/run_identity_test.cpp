// run.json: text written by another program never becomes part of a manifest or a file name.
#include "save/run_identity.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::saver;
using lt_test::TempFolder;

namespace {

// The identity of a run in whose folder run.json holds `text`, with the path of the folder in place of "HERE".
RunIdentity identity_with(std::string text) {
  const TempFolder folder;
  if (const std::size_t here = text.find("HERE"); here != std::string::npos) text.replace(here, 4, folder.text());
  folder.write("run.json", text);
  Config config;
  config.run.dir = folder.text(), config.checkpoint.dir = folder / "checkpoints";
  return identity_of(config.run.dir, config.checkpoint.dir);
}

std::string run_json(const std::string& id, const std::string& parent = "", const std::string& began = "") {
  return R"({"folder": "HERE", "id": ")" + id + R"(", "parent": ")" + parent + R"(", "began": ")" + began + "\"}";
}

}  // namespace

TEST_CASE("run identity: run.json says which run it is", "[train]") {
  const RunIdentity kept = identity_with(run_json("20240501T165500Z-1", "parent-1", "20240501T165500Z"));
  CHECK((kept.id == "20240501T165500Z-1" && kept.parent == "parent-1" && kept.began == "20240501T165500Z"));
  CHECK(!kept.is_new);
  CHECK(identity_with(run_json("a")).id == "a");
}

TEST_CASE("run identity: a run.json that no run has written counts as missing", "[train]") {
  const std::string deep = "\"deep\": " + std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), run_json(""), run_json("../up"), run_json("a b"),
        run_json(std::string(65, 'a')), run_json("a", "b/c"), run_json("a", "", "yesterday, or so"),
        std::string(R"({"folder": "HERE", "id": 1, "parent": "", "began": ""})"),
        std::string(R"({"id": "a", "parent": "", "began": ""})"), R"({"folder": "HERE", "id": "a", )" + deep + "}",
        run_json("a") + std::string(std::size_t{1} << 20, ' ')}) {
    CHECK(identity_with(text).is_new);
  }
}

TEST_CASE("run identity: a run.json that cannot be read is not taken for none", "[train]") {
  const TempFolder folder;
  std::filesystem::create_symlink("run.json", folder / "run.json");  // cannot be opened, even by root
  Config config;
  config.run.dir = folder.text(), config.checkpoint.dir = folder / "checkpoints";
  CHECK_THROWS_WITH(identity_of(config.run.dir, config.checkpoint.dir),
                    folder / "run.json" +
                        ": expected a readable file, found: Too many levels of "
                        "symbolic links");
}

TEST_CASE("run identity: a start does not wait for a pipe that stands where run.json should", "[train]") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "run.json").c_str(), 0600) == 0);
  Config config;
  config.run.dir = folder.text(), config.checkpoint.dir = folder / "checkpoints";
  CHECK(identity_of(config.run.dir, config.checkpoint.dir).is_new);
}

TEST_CASE("run identity: a copied folder is a run of its own, a moved one is not", "[train]") {
  const TempFolder folder;
  const std::string original = folder / "a", copy = folder / "b", moved = folder / "c";
  std::filesystem::create_directory(original);
  write_identity(original, new_identity());
  const std::string id = read_identity(original).id;
  CHECK(!read_identity(original).is_new);
  std::filesystem::copy(original, copy, std::filesystem::copy_options::recursive);
  const RunIdentity of_copy = read_identity(copy);
  CHECK((of_copy.id != id && of_copy.is_new && of_copy.parent == id));
  REQUIRE(of_copy.copied_from.size() == 1);
  CHECK(of_copy.copied_from[0].id == id);
  write_identity(copy, of_copy);
  CHECK(read_identity(copy).id == of_copy.id);
  std::filesystem::rename(original, moved);
  CHECK(read_identity(moved).id == id);
  write_identity(moved, read_identity(moved));
  CHECK(read_identity(moved).id == id);
  // A copy that takes the place of the original has its id, and the original is the copy then.
  std::filesystem::copy(moved, original, std::filesystem::copy_options::recursive);
  write_identity(original, read_identity(original));
  const RunIdentity in_place = read_identity(original);
  std::filesystem::rename(original, folder / "d");
  std::filesystem::copy(folder / "d", original, std::filesystem::copy_options::recursive);
  CHECK(read_identity(original).id == in_place.id);
  CHECK(read_identity(folder / "d").id != in_place.id);
  // Checkpoints of the original are the copy's own, but not where the original saves.
  Config config;
  config.run.dir = copy, config.checkpoint.dir = copy + "/checkpoints";
  CHECK(checkpoints_of(config.checkpoint.dir, read_identity(copy)).includes(id));
  RunIdentity shares = of_copy;
  shares.copied_from[0].checkpoints = std::filesystem::weakly_canonical(copy + "/checkpoints");
  CHECK(!checkpoints_of(config.checkpoint.dir, shares).includes(id));
}
