// What is kept, what is removed, and that neither evidence nor a running save is touched.
#include "retention.h"

#include <chrono>

#include "checkpoints/fixture.h"
#include "test_main/catch.h"
#include "verify.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

using Strings = std::vector<std::string>;

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
  write_file(temp.path() / "notes.txt", "mine");
  save_alone(temp.path(), 5, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "notes.txt", "step-00000001", "step-00000002.corrupt-1",
                                         "step-00000003", "step-00000004", "step-00000005"});
}

TEST_CASE("retention: a flipped bit, which no size shows, makes a folder one that neither counts nor goes",
          "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3}) save_alone(temp.path(), step, shards);
  const fs::path file = temp.path() / "step-00000003" / "rank-00000.h5";
  std::string bytes = read_file(file);
  const float value = value_of("scale", StateKind::m, 0);
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  REQUIRE(at != bytes.npos);
  bytes[at] ^= 1;
  write_file(file, bytes);
  // Clocks of file systems are coarse, and this process has saved the folder a moment ago.
  fs::last_write_time(file, fs::file_time_type::clock::now() + std::chrono::hours(1));
  save_alone(temp.path(), 4, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000002", "step-00000003", "step-00000004"});
  save_alone(temp.path(), 5, shards, 2);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000003", "step-00000004", "step-00000005"});
}

TEST_CASE("retention: leftovers go once a younger checkpoint stands, younger ones stay", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const auto hour = std::chrono::hours(1);
  const auto make = [&](const std::string& name, auto age) {
    const fs::path folder = temp.path() / name;
    fs::create_directory(folder);
    write_file(folder / "rank-00000.h5", "half");
    fs::last_write_time(folder / "rank-00000.h5", fs::file_time_type::clock::now() - age);
    fs::last_write_time(folder, fs::file_time_type::clock::now() - hour);
  };
  make("step-00000003.tmp-dead", hour);
  make("step-00000002.old-dead", hour);
  write_file(temp.path() / "LATEST.tmp-dead", "step-000");
  fs::last_write_time(temp.path() / "LATEST.tmp-dead", fs::file_time_type::clock::now() - hour);
  make("step-00000009.tmp-alive", -hour);  // another process writes to its file
  save_alone(temp.path(), 4, shards);
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000004", "step-00000009.tmp-alive"});
}
