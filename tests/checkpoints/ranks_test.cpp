// Several ranks write one file each. Ranks with any other partition can read the files. A failure on one rank fails all
// ranks.
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/fixture.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "libtrain/error.h"
#include "test_main/armed_fault.h"
#include "test_main/catch.h"
#include "test_main/resource_limit.h"
#include "test_main/world.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

namespace {

const Group& group() { return world().group(); }

// Rank 0's folder, shared by all ranks. It is removed when all ranks are done with it.
class SharedFolder {
 public:
  SharedFolder() : path_(group().broadcast_bytes(own_.text(), 0)) {}
  ~SharedFolder() { group().barrier(); }
  const fs::path& path() const { return path_; }
  std::string text() const { return path_.string(); }

 private:
  TempFolder own_;
  fs::path path_;
};

}  // namespace

TEST_CASE("ranks: rank 0's state of the program is saved, and every rank gets it", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  RunState state = state_at(3);
  state.program = {{"rank", std::to_string(group().rank())}};
  const std::string folder = save(temp.text(), mine, state, group());
  CHECK(load(folder, mine, group()).program == State{{"rank", "0"}});
  CHECK(save(temp.text(), mine, state, group()) == folder);  // the same state
}

TEST_CASE("ranks: saved by all, loaded at this and at every other partition", "[checkpoints]") {
  const SharedFolder temp;
  // Saved by one rank, a block ends at element 1048576 of the large parameter. Here that element lies inside a part.
  for (const auto& model : {small_model(), larger_model()}) {
    const Size step = static_cast<Size>(model.size());
    const ShardMap mine = shards_of(model, group().rank(), group().size());
    const std::string folder = save(temp.text(), mine, state_at(step), group());
    CHECK(folder == (temp.path() / ("step-0000000" + std::to_string(step))).string());
    CHECK(names_in(folder).size() == static_cast<std::size_t>(group().size()) + 1);
    load(folder, mine);
    CHECK(wrong_elements(mine) == 0);
    for (const int size : {1, 2, 3, 5}) {
      const ShardMap other = shards_of(model, group().rank() % size, size);
      load(folder, other);
      CHECK(wrong_elements(other) == 0);
    }
    CHECK(read_world_size(folder) == group().size());
    CHECK(read_state(folder).samples == 48 * step);
    CHECK(problems_of(folder, true).empty());
  }
}

TEST_CASE("ranks: a checkpoint of the same state stays, whatever rank count wrote it", "[checkpoints]") {
  const SharedFolder temp;
  const auto model = larger_model();
  if (group().rank() == 0) save_alone(temp.path(), 5, shards_of(model, 0, 1));
  group().barrier();
  const ShardMap mine = shards_of(model, group().rank(), group().size());
  const std::string folder = save(temp.text(), mine, state_at(5), group());
  CHECK(read_world_size(folder) == 1);
  CHECK(problems_of(folder, true).empty());
  if (group().rank() == 0) mine.owned.front().values.data<float>()[0] += 1;
  CHECK_THROWS_WITH(save(temp.text(), mine, state_at(5), group()),
                    ContainsSubstring("expected the values of this run, found others"));
  CHECK(read_world_size(folder) == 1);
}

TEST_CASE("ranks: more ranks than elements leave files without datasets", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of({{"one", {1}}}, group().rank(), group().size());
  const std::string folder = save(temp.text(), mine, state_at(1), group());
  const Manifest manifest = read_manifest(folder);
  CHECK(manifest.files[0].datasets.size() == 3);
  CHECK(manifest.files.back().datasets.empty());
  const ShardMap whole = shards_of({{"one", {1}}}, 0, 1);
  load(folder, whole);
  CHECK(wrong_elements(whole) == 0);
}

TEST_CASE("ranks: one rank's wrong input is everybody's error and leaves no trace", "[checkpoints]") {
  const SharedFolder temp;
  ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  if (group().rank() == 1) mine.owned.front().parameter = "unknown";
  std::string error;
  int rank = -1;
  try {
    save(temp.text(), mine, state_at(1), group());
  } catch (const UsageError& e) {
    error = e.what(), rank = e.rank();
  }
  CHECK_THAT(error, ContainsSubstring("unknown"));
  CHECK(rank == 1);
  CHECK(names_in(temp.path()).empty());
  group().barrier();  // no rank saves again while others list the folder
}

TEST_CASE("ranks: a gap between the ranks is everybody's error", "[checkpoints]") {
  const SharedFolder temp;
  ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  if (group().rank() == 1) mine.owned.pop_back();
  CHECK_THROWS_WITH(save(temp.text(), mine, state_at(1), group()), ContainsSubstring("is in no file"));
  group().barrier();
  CHECK(names_in(temp.path()).empty());
}

TEST_CASE("ranks: one rank's full disk fails the save on all; the older checkpoint stands", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  const std::string older = save(temp.text(), mine, state_at(1), group());
  std::string error;
  bool shared = false;
  {
    std::optional<FileSizeLimit> full;
    if (group().rank() == 1) full.emplace(1000);
    try {
      save(temp.text(), mine, state_at(2), group());
    } catch (const DataError& e) {
      error = e.what(), shared = e.shared() && e.rank() == 1;
    }
  }
  CHECK_THAT(error, ContainsSubstring("rank-00001.h5: "));
  CHECK(shared);
  group().barrier();  // rank 0 has removed the failed save
  CHECK(names_in(temp.path()) == std::vector<std::string>{"LATEST", "step-00000001"});
  CHECK(find_newest(temp.text(), kAnyRun, nullptr, true) == older);
  group().barrier();
  const std::string again = save(temp.text(), mine, state_at(2), group());
  CHECK(find_newest(temp.text(), kAnyRun, nullptr, true) == again);
}

TEST_CASE("ranks: damage that one rank finds makes all take the older checkpoint", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of(larger_model(), group().rank(), group().size());
  const std::string older = save(temp.text(), mine, state_at(1), group());
  set_step(mine, 2);
  const fs::path newer = save(temp.text(), mine, state_at(2), group());
  if (group().rank() == 0) {  // damages what the last rank reads or its share of the other bytes
    std::string bytes = read_text(newer / shard_name(group().size() - 1));
    bytes[bytes.size() / 2] ^= 1;
    write_text(newer / shard_name(group().size() - 1), bytes);
  }
  group().barrier();
  std::vector<std::string> notes;
  const Loaded loaded = load_newest(candidates(temp.text(), kAnyRun), mine, group(), &notes);
  CHECK(loaded.folder == older);
  CHECK(wrong_elements(mine, 1) == 0);
  CHECK(notes.size() == (group().rank() == 0 ? 1u : 0u));
  CHECK_THROWS_AS(load(newer.string(), mine, group()), DataError);
}

TEST_CASE("ranks: rank 0 alone removes older checkpoints, and a removal that fails fails no save", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  const auto save_step = [&](Size step, const std::string& fault) {
    const ArmedFault armed(fault);
    CHECK_NOTHROW(save(temp.text(), mine, state_at(step), group(), {.keep = 2}));
    group().barrier();  // rank 0 has removed what it removes
    return device::fault_hits();
  };
  using Strings = std::vector<std::string>;
  for (const Size step : {1, 2}) CHECK(save_step(step, "") == 0);
  CHECK(save_step(3, "save-gc:0:0:eio") == (group().rank() == 0 ? 1 : 0));
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000001", "step-00000002", "step-00000003"});
  CHECK(problems_of(temp.path() / "step-00000003", true).empty());
  group().barrier();
  for (int rank = 1; rank < group().size(); ++rank) {  // the others do not even come to it
    CHECK(save_step(3 + rank, "save-gc:" + std::to_string(rank) + ":0:eio") == 0);
  }
  CHECK(names_in(temp.path()).size() == 3);
  CHECK(find_newest(temp.text(), kAnyRun, nullptr, true) == (temp.path() / step_name(2 + group().size())).string());
}

TEST_CASE("ranks: a valid checkpoint of the step is left by all", "[checkpoints]") {
  const SharedFolder temp;
  const ShardMap mine = shards_of(small_model(), group().rank(), group().size());
  const fs::path folder = save(temp.text(), mine, state_at(1), group());
  const auto written = fs::last_write_time(folder / "manifest.json");
  CHECK(save(temp.text(), mine, state_at(1), group()) == folder.string());
  CHECK(fs::last_write_time(folder / "manifest.json") == written);
}
