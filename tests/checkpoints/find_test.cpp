// Which checkpoint a path selects, and the reasons given for skipping newer ones.
#include <fmt/format.h>

#include "checkpoints/fixture.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/run_id.h"
#include "checkpoints/format/verify.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

using Strings = std::vector<std::string>;

TEST_CASE("names: steps are those that step_name() makes", "[checkpoints]") {
  CHECK(step_name(1000) == "step-00001000");
  CHECK(parse_step("step-00001000") == 1000);
  CHECK(parse_step(step_name(1234567890123)) == 1234567890123);
  for (const char* other : {"step-1000", "step-000001000", "step-0000100x", "step-00001000.tmp-x", "step-", "",
                            "step-00001000.corrupt-1", "step-9999999999999999999999"}) {
    CHECK(!parse_step(other));
  }
  const std::string run = draw_run_id(), attempt = attempt_of(run);
  CHECK(is_run_id(run));
  CHECK(run.size() == 33);
  CHECK(draw_run_id() != run);
  for (const std::string& name : {step_name(7), std::string("LATEST")}) {
    CHECK(is_leftover(temporary_name(name, attempt), run));
    CHECK(is_leftover(discarded_name(name, attempt), run));
    CHECK(!is_leftover(temporary_name(name, attempt_of(run + "0")), run));
  }
  for (const std::string& other : {step_name(7), "step-00000007.corrupt-1-" + attempt, "notes.tmp-" + attempt,
                                   std::string("LATEST"), "step-00000007.tmp-" + run}) {
    CHECK(!is_leftover(other, run));
  }
  for (const char* other : {"", "../up", "a b", "a.b"}) CHECK(!is_run_id(other));
}

TEST_CASE("find_newest: a step's folder, a checkpoints folder or a run's folder", "[checkpoints]") {
  const TempFolder temp;
  const fs::path checkpoints = temp.path() / "checkpoints";
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {2, 30, 4}) save_alone(checkpoints, step, shards);
  write_text(checkpoints / "LATEST", "step-00000002\n");  // a wrong hint
  const std::string newest = (checkpoints / "step-00000030").string();
  Strings notes;
  CHECK(find_newest(temp.text(), kAnyRun, &notes, false) == newest);
  CHECK(find_newest(checkpoints.string(), kAnyRun, &notes, true) == newest);
  CHECK(find_newest(checkpoints.string() + "/", kAnyRun, &notes, false) == newest);
  CHECK(find_newest((checkpoints / "step-00000004").string() + "/", kAnyRun, &notes, true) ==
        (checkpoints / "step-00000004").string());
  CHECK(notes.empty());
  {
    const fs::path before = fs::current_path();  // relative paths stay relative
    fs::current_path(temp.path());
    CHECK(find_newest("checkpoints/", kAnyRun, nullptr, false) == "checkpoints/step-00000030");
    CHECK(find_newest(".", kAnyRun, nullptr, false) == "./checkpoints/step-00000030");
    fs::current_path(checkpoints / "step-00000002");
    CHECK(find_newest(".", kAnyRun, nullptr, false) == ".");
    fs::current_path(before);
  }
  // A folder of any name is a checkpoint if it has a manifest.
  fs::copy(newest, temp.path() / "best");
  CHECK(find_newest((temp.path() / "best").string(), kAnyRun, nullptr, true) == (temp.path() / "best").string());

  const std::vector<Listing> listings = list(temp.text(), true);
  REQUIRE(listings.size() == 3);
  CHECK(listings[0].step == 2);
  CHECK(listings[1].step == 4);
  CHECK(listings[2].path == newest);
  CHECK(listings[2].valid);
  CHECK(verify(temp.text()).empty());

  // Whatever else lies beside a run's steps, they are found.
  save_alone(checkpoints / "checkpoints", 50, shards);
  fs::copy(fs::path(newest) / "manifest.json", checkpoints / "manifest.json");
  CHECK(find_newest(checkpoints.string(), {kRun}, nullptr, true) == newest);
  CHECK(find_other(checkpoints.string(), {"another"})->path == newest);
  CHECK(saved_in(checkpoints.string()).size() == 3);
}

TEST_CASE("find_newest: nothing there", "[checkpoints]") {
  const TempFolder temp;
  Strings notes;
  CHECK(!find_newest(temp.text(), kAnyRun, &notes, false));
  CHECK(!find_newest(temp.text() + "/missing", kAnyRun, &notes, false));
  // A disk that is not mounted: a run must not begin anew.
  fs::create_directory_symlink("/gone/checkpoints", temp.path() / "link");
  for (const RunFilter& runs : {kAnyRun, RunFilter{kRun}}) {
    CHECK(message_of<DataError>([&] { find_newest(temp.text() + "/link", runs, &notes, false); }) ==
          temp.text() + "/link: expected a file or folder, found a link to /gone/checkpoints, which is not there");
  }
  CHECK(list(temp.text(), true).empty());
  CHECK_THROWS_AS(list(temp.text() + "/missing", true), DataError);
  CHECK(notes.empty());
  CHECK_THROWS_AS(verify(temp.text()), DataError);
}

TEST_CASE("newest: a hint names what is expected if nothing of that kind exists, and only then", "[checkpoints]") {
  const TempFolder temp;
  const auto hint = [&] {
    try {
      return newest(temp.text());
    } catch (const DataError& e) {
      return e.hint();
    }
  };
  CHECK(hint() == "a step's folder, a checkpoints folder or a run's folder is expected");
  const auto found = [&] { return message_of<DataError>([&] { newest(temp.text()); }); };
  fs::create_directories(temp.path() / "snapshots/abc");
  CHECK(found() ==
        fmt::format("{0}: expected a valid checkpoint, found the root of a Hugging Face cache, with the model "
                    "in {0}/snapshots/abc",
                    temp.text()));
  fs::remove_all(temp.path() / "snapshots");
  write_text(temp.path() / "adapter_config.json", R"({"base_model_name_or_path":"org/base"})");
  CHECK(found() == temp.text() + ": expected a valid checkpoint, found an adapter of org/base");
  fs::remove(temp.path() / "adapter_config.json");
  write_text(temp.path() / "config.json", "{}");
  write_text(temp.path() / "model.safetensors", "");
  CHECK(hint() == "this is a Hugging Face folder: ltrain checkpoint import makes a checkpoint of it");
  const fs::path damaged = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  fs::resize_file(damaged / "manifest.json", 0);
  CHECK(hint().empty());
}

TEST_CASE("find_newest: says why it passed each one over, newest first", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (const Size step : {1, 2, 3, 4, 5, 6}) save_alone(temp.path(), step, shards);
  const auto file = [&](const char* step, const char* name) { return temp.path() / step / name; };
  const auto bytes = std::to_string(fs::file_size(file("step-00000002", "rank-00000.h5")));
  fs::resize_file(file("step-00000002", "rank-00000.h5"), 17);
  fs::remove(file("step-00000003", "rank-00000.h5"));
  fs::resize_file(file("step-00000004", "manifest.json"), 0);
  fs::remove(file("step-00000005", "manifest.json"));
  fs::remove_all(temp.path() / "step-00000006");
  fs::copy(temp.path() / "step-00000001", temp.path() / "step-00000006");
  fs::create_directory_symlink("gone", temp.path() / "step-00000007");
  Strings notes;
  CHECK(find_newest(temp.text(), kAnyRun, &notes, false) == (temp.path() / "step-00000001").string());
  CHECK(notes == Strings{"step-00000007: manifest.json: cannot open: No such file or directory",
                         "step-00000006: manifest.json: step: expected 6, found 1",
                         "step-00000005: manifest.json: cannot open: No such file or directory",
                         "step-00000004: manifest.json: is empty",
                         "step-00000003: rank-00000.h5: cannot open: No such file or directory",
                         "step-00000002: rank-00000.h5: expected " + bytes + " bytes, found 17"});
  CHECK(verify(temp.text()).size() == 6);
  CHECK(list(temp.text(), false)[1].reason == "rank-00000.h5: expected " + bytes + " bytes, found 17");
}

TEST_CASE("verify, newest and list: report the bytes that they have read", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(larger_model(), 0, 1);
  const fs::path older = save_alone(temp.path(), 1, shards), newer = save_alone(temp.path(), 2, shards);
  const auto bytes = static_cast<Size>(fs::file_size(newer / "rank-00000.h5"));
  CHECK(static_cast<Size>(fs::file_size(older / "rank-00000.h5")) == bytes);
  Reports of_verify, of_newest, of_damaged, of_older;
  CHECK(verify(temp.text(), of_verify.receiver()).empty());
  CHECK(of_verify.grow_to(2 * bytes));
  CHECK(of_verify.done.size() > 6);  // more often than for each file
  CHECK(newest(temp.text(), nullptr, of_newest.receiver()) == newer.string());
  CHECK(of_newest.grow_to(bytes));
  Reports of_list;
  CHECK(list(temp.text(), true, of_list.receiver()).size() == 2);
  CHECK(of_list.grow_to(2 * bytes));
  // A file that cannot be read is done as well.
  fs::resize_file(newer / "rank-00000.h5", 17);
  CHECK(verify(temp.text(), of_damaged.receiver()).size() == 1);
  CHECK(of_damaged.grow_to(2 * bytes));
  CHECK(newest(temp.text(), nullptr, of_older.receiver()) == older.string());
  CHECK(of_older.grow_to(bytes));
}

TEST_CASE("find_newest: a flipped bit is found with checksums only", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  save_alone(temp.path(), 1, shards);
  const fs::path damaged = save_alone(temp.path(), 2, shards);
  std::string bytes = read_text(damaged / "rank-00000.h5");
  const float value = value_of("scale", "m", 0);
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  REQUIRE(at != bytes.npos);
  bytes[at] ^= 1;
  write_text(damaged / "rank-00000.h5", bytes);
  CHECK(find_newest(temp.text(), kAnyRun, nullptr, false) == damaged.string());
  Strings notes;
  CHECK(find_newest(temp.text(), kAnyRun, &notes, true) == (temp.path() / "step-00000001").string());
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0],
             Catch::Matchers::ContainsSubstring("step-00000002: rank-00000.h5: m/scale[0, 1): crc32c: expected"));
}

TEST_CASE("find: a manifest is parsed once, and again where its file is not as it was", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards), manifest = folder / "manifest.json";
  save_alone(temp.path(), 2, shards);
  const auto time = fs::last_write_time(manifest);
  const std::string text = read_text(manifest);
  write_text(manifest, std::string(text.size(), ' '));
  fs::last_write_time(manifest, time);
  CHECK(list(temp.text(), false)[0].valid);  // from the cache
  CHECK(candidates(temp.text(), {kRun})[1].step == 1);
  CHECK(!list(temp.text(), true)[0].valid);
  fs::last_write_time(manifest, time + std::chrono::hours(1));
  CHECK(!list(temp.text(), false)[0].valid);
  write_text(manifest, text);
  fs::last_write_time(manifest, time + std::chrono::hours(2));
  CHECK(list(temp.text(), false)[0].valid);
  fs::resize_file(folder / "rank-00000.h5", 5);  // changes neither the manifest nor the answer
  CHECK(!list(temp.text(), false)[0].valid);
}
