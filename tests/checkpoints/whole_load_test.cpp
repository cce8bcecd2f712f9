// A load verifies every byte about once and skips damaged checkpoints.
#include "checkpoints/fixture.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/known_folders.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/load_shares.h"
#include "checkpoints/format/manifest.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

namespace {

void flip(const fs::path& file, Size at) {
  std::string bytes = read_text(file);
  bytes[static_cast<std::size_t>(at)] = static_cast<char>(bytes[static_cast<std::size_t>(at)] ^ 1);
  write_text(file, bytes);
}

// Positions of one byte in each kind's payload and of one byte outside the payload.
std::vector<Size> places_in(const Manifest& manifest) {
  std::vector<Size> places{0};
  for (const DatasetEntry& dataset : manifest.files[0].datasets) {
    if (dataset.parameter == "scale") places.push_back(dataset.offset);
  }
  return places;
}

}  // namespace

TEST_CASE("whole load: what nobody needs is verified too", "[checkpoints]") {
  const TempFolder temp;
  ShardMap masters = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, masters), file = folder / "rank-00000.h5";
  std::erase_if(masters.needed, [](const StateRange& range) { return range.kind != kMaster; });
  const auto places = places_in(read_manifest(folder));
  REQUIRE(places.size() == 4);
  for (const Size at : places) {
    flip(file, at);
    CHECK_THROWS_WITH(load(folder.string(), masters), ContainsSubstring("rank-00000.h5: "));
    CHECK(!is_whole(folder));
    flip(file, at);
  }
  forget(masters);
  load(folder.string(), masters);
  CHECK(wrong_elements(masters) == 0);
  CHECK(is_whole(folder));
  std::erase_if(masters.needed, [](const StateRange& range) { return range.parameter != "scale"; });
  flip(file, places[1] - 4);  // in the masters of another tensor, which is not requested
  CHECK_THROWS_WITH(load(folder.string(), masters), ContainsSubstring("rank-00000.h5: master/"));
  CHECK(!is_whole(folder));
}

TEST_CASE("whole load: the shares of the ranks are everything, each piece once", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(larger_model(), 0, 1)), file = folder / "rank-00000.h5";
  const Manifest manifest = read_manifest(folder);
  for (const Size at : places_in(manifest)) {
    flip(file, at);
    for (const int size : {1, 2, 3, 40}) {
      int found = 0;
      for (int rank = 0; rank < size; ++rank) {
        try {
          verify_share(folder, manifest, {}, rank, size);
        } catch (const DataError&) {
          ++found;
        }
      }
      CHECK(found == 1);
    }
    flip(file, at);
  }
  for (const int rank : {0, 1}) verify_share(folder, manifest, {}, rank, 2);
  std::vector<bool> all(static_cast<std::size_t>(piece_count(manifest)), true);
  flip(file, 0);  // goes unnoticed: every piece is marked as verified
  verify_share(folder, manifest, all, 0, 1);
}

TEST_CASE("whole load: damaged candidates are passed over with their reasons, newest first", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3, 4}) {
    set_step(shards, step);
    save_alone(temp.path(), step, shards);
  }
  flip(temp.path() / "step-00000004" / "rank-00000.h5", 0);
  fs::resize_file(temp.path() / "step-00000003" / "manifest.json", 0);
  flip(temp.path() / "step-00000002" / "rank-00000.h5", places_in(read_manifest(temp.path() / "step-00000002"))[1]);
  std::vector<std::string> notes;
  const Loaded loaded = load_newest(candidates(temp.text(), kAnyRun), shards, Group(), &notes);
  CHECK(loaded.folder == (temp.path() / "step-00000001").string());
  CHECK(loaded.state.step == 1);
  CHECK(wrong_elements(shards, 1) == 0);
  REQUIRE(notes.size() == 3);
  CHECK_THAT(notes[0], ContainsSubstring("step-00000004: rank-00000.h5: metadata: crc32c: expected"));
  CHECK(notes[1] == "step-00000003: manifest.json: is empty");
  CHECK_THAT(notes[2], ContainsSubstring("step-00000002: rank-00000.h5: master/scale[0, 1): crc32c: expected"));

  flip(temp.path() / "step-00000001" / "rank-00000.h5", 0);
  const Loaded none = load_newest(candidates(temp.text(), kAnyRun), shards, Group(), nullptr);
  CHECK(none.folder.empty());
  CHECK(none.tried);
  CHECK(!load_newest({}, shards, Group(), nullptr).tried);
}

TEST_CASE("whole load: a checkpoint of another model is an error, and no older one is tried", "[checkpoints]") {
  const TempFolder temp;
  save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  save_alone(temp.path(), 2, shards_of(larger_model(), 0, 1));
  CHECK_THROWS_WITH(load_newest(candidates(temp.text(), kAnyRun), shards_of(small_model(), 0, 1), Group(), nullptr),
                    ContainsSubstring("blocks.0.ffn.up.weight: expected no such parameter in the model"));
}
