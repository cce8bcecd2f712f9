// Which checkpoints are kept and which are removed. Damaged checkpoints, other runs' checkpoints and running saves are
// never removed.
#include "checkpoints/format/retention.h"

#include <chrono>

#include "checkpoints/fixture.h"
#include "checkpoints/format/run_id.h"
#include "checkpoints/format/verify.h"
#include "device/progress.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

using Strings = std::vector<std::string>;

namespace {

void save_with_loss(const fs::path& directory, Size step, std::optional<double> loss, const SaveOptions& options) {
  RunState state = state_at(step);
  state.eval_loss = loss;
  save(directory.string(), shards_of(small_model(), 0, 1), state, Group(), options);
}

// Flips a bit of a payload, so that only checksums tell.
void flip_a_bit(const fs::path& folder) {
  const fs::path file = folder / "rank-00000.h5";
  std::string bytes = read_text(file);
  const float value = value_of("scale", "m", 0);
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  REQUIRE(at != bytes.npos);
  bytes[at] ^= 1;
  write_text(file, bytes);
  // File system clocks are coarse and this process saved the folder only now, so set a clearly later time.
  fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(1));
}

}  // namespace

TEST_CASE("retention: the newest `keep` valid ones, never fewer than two", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3, 4, 5}) save_alone(temp.path(), step, shards, 3);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000003", "step-00000004", "step-00000005"});
  save_alone(temp.path(), 6, shards, 0);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000005", "step-00000006"});
}

TEST_CASE("retention: the one just written stays, also where higher steps are there", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {50, 60, 70}) save_alone(temp.path(), step, shards);
  save_alone(temp.path(), 11, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000011", "step-00000070"});
}

TEST_CASE("retention: damaged folders neither count nor go", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3, 4}) save_alone(temp.path(), step, shards);
  fs::resize_file(temp.path() / "step-00000001" / "rank-00000.h5", 5);
  fs::resize_file(temp.path() / "step-00000004" / "manifest.json", 5);
  fs::create_directory(temp.path() / "step-00000002.corrupt-1");
  write_text(temp.path() / "notes.txt", "mine");
  save_alone(temp.path(), 5, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "notes.txt", "step-00000001", "step-00000002.corrupt-1",
                                         "step-00000003", "step-00000004", "step-00000005"});
}

TEST_CASE("retention: a checkpoint with a flipped bit is neither counted nor deleted", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3}) save_alone(temp.path(), step, shards);
  flip_a_bit(temp.path() / "step-00000003");
  save_alone(temp.path(), 4, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000002", "step-00000003", "step-00000004"});
  save_alone(temp.path(), 5, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000003", "step-00000004", "step-00000005"});
}

TEST_CASE("retention: writing LATEST overwrites no other file", "[checkpoints]") {
  const TempFolder temp;
  const fs::path victim = temp.path() / "victim", planted = temp.path() / "LATEST.tmp-planted";
  write_text(victim, "mine");
  fs::create_symlink(victim, planted);
  CHECK_THROWS_AS(write_latest(temp.path(), "step-00000001", "planted"), DataError);
  CHECK(read_text(victim) == "mine");
  write_latest(temp.path(), "step-00000001", attempt_of(kRun));
  CHECK(read_text(temp.path() / "LATEST") == "step-00000001\n");
  CHECK(names_in(temp.path()) == Strings{"LATEST", "LATEST.tmp-planted", "victim"});
}

TEST_CASE("retention: the run's leftovers go once a checkpoint stands, others' stay", "[checkpoints]") {
  const TempFolder temp;
  const auto make = [&](const std::string& name) {
    fs::create_directory(temp.path() / name);
    write_text(temp.path() / name / "rank-00000.h5", "half");
  };
  const std::string mine = attempt_of(kRun), other = attempt_of("20240101T000000Z-0000000000000001");
  make("step-00000003.tmp-" + mine);
  make("step-00000002.old-" + mine);
  write_text(temp.path() / ("LATEST.tmp-" + mine), "step-000");
  make("step-00000003.tmp-" + other);
  save_alone(temp.path(), 4, shards_of(small_model(), 0, 1));
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000003.tmp-" + other, "step-00000004"});
}

TEST_CASE("retention: each file that is removed is progress, for the watchdog", "[checkpoints]") {
  const TempFolder temp;
  for (const Size step : {1, 2, 3}) save_alone(temp.path(), step, shards_of(small_model(), 0, 1));
  const auto progress_of = [](auto&& body) {
    const std::uint64_t before = device::read_progress().count;
    body();
    return device::read_progress().count - before;
  };
  CHECK(progress_of([&] { remove_superfluous(temp.path(), "step-00000003", kRun, {.keep = 2}); }) ==
        3);  // two files, a folder
  const fs::path leftover = temp.path() / ("step-00000004.tmp-" + attempt_of(kRun));
  fs::create_directory(leftover);
  for (const char* name : {"rank-00000.h5", "rank-00001.h5", "rank-00002.h5"}) write_text(leftover / name, "half");
  CHECK(progress_of([&] { remove_leftovers(temp.path(), {kRun}); }) == 4);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000002", "step-00000003"});
}

TEST_CASE("retention: other runs' checkpoints neither count nor go", "[checkpoints]") {
  const TempFolder temp;
  const std::string other = "20240101T000000Z-0000000000000001";
  for (const Size step : {6, 12, 18}) save_by(other, temp.path(), step);
  const TempFolder apart;
  for (const Size step : {28, 29, 30}) {
    fs::copy(save_by(kRun, apart.path(), step), temp.path() / ("step-000000" + std::to_string(step)));
  }
  remove_superfluous(temp.path(), "step-00000030", kRun, {.keep = 2});
  CHECK(names_in(temp.path()) ==
        Strings{"LATEST", "step-00000006", "step-00000012", "step-00000018", "step-00000029", "step-00000030"});
}

TEST_CASE("retention: multiples of keep_every and the best evaluation stay beyond the newest", "[checkpoints]") {
  const TempFolder temp;
  const auto save_evaluated = [&](Size step, std::optional<double> loss, const SaveOptions& options) {
    save_with_loss(temp.path(), step, loss, options);
  };
  for (Size step = 1; step <= 9; ++step) save_evaluated(step, {}, {.keep = 2, .keep_every = 4});
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000004", "step-00000008", "step-00000009"});
  const double losses[] = {3, 2.5, 2.5, 2.75, 2.75};  // steps 10 to 14; step 11 is the first with the best loss
  for (Size step = 10; step <= 14; ++step) {
    save_evaluated(step, losses[step - 10], {.keep = 2, .keep_every = 8, .best = true});
  }
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000008", "step-00000011", "step-00000013", "step-00000014"});
  save_evaluated(15, 2.25, {.keep = 2, .best = true});
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000014", "step-00000015"});
}

TEST_CASE("retention: in place of a damaged best checkpoint the second best stays", "[checkpoints]") {
  const TempFolder temp;
  const double losses[] = {1, 1.5, 2, 2.5, 3};  // steps 1 to 5
  const SaveOptions options{.keep = 2, .best = true};
  for (Size step = 1; step <= 3; ++step) save_with_loss(temp.path(), step, losses[step - 1], {.keep = 9});
  SECTION("truncated") { fs::resize_file(temp.path() / "step-00000001" / "rank-00000.h5", 5); }
  SECTION("with a flipped bit") { flip_a_bit(temp.path() / "step-00000001"); }
  for (Size step = 4; step <= 5; ++step) save_with_loss(temp.path(), step, losses[step - 1], options);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000001", "step-00000002", "step-00000004", "step-00000005"});
}
