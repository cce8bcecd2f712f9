// Access to a run's folder that another process uses.
#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/tcp/tcp_socket.h"
#include "libtrain/error.h"
#include "record/run_log.h"
#include "save/checkpoint_space.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::run;
using lt_test::TempFolder;

TEST_CASE("an event may name a path of any bytes", "[train]") {
  const TempFolder temp;
  recorder::RunLog log;
  log.open(temp.path().string());
  nlohmann::ordered_json event;
  event["event"] = "checkpoint_failed", event["step"] = 3, event["error"] = "/caf\xe9: no room";
  log.event(event);
  std::ifstream rows(temp.path() / "metrics.jsonl");
  const std::string text(std::istreambuf_iterator<char>(rows), {});
  CHECK(text.find("/caf\xef\xbf\xbd: no room") != std::string::npos);
}

TEST_CASE("room for checkpoints: as many as the saves and what is kept beside a new one", "[train]") {
  CheckpointConfig checkpoint;
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 0, 0) == 1);  // of the last step
  checkpoint.every = 50;
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 0, 0) == 2);  // 50 and 100
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 50, 1) == 1);
  checkpoint.every = 10, checkpoint.keep = 3;
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 0, 0) == 4);
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 50, 3) == 1);
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 50, 9) == 1);
  checkpoint.best = true, checkpoint.keep_every = 20;
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 0, 0) ==
        10);  // every save: 3 kept, the new one, the best, five for ever
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 40, 4) == 4);
  checkpoint = {}, checkpoint.every_minutes = 5;
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 0, 0) == 4);
  CHECK(saver::most_new_checkpoints(checkpoint, 100, 98, 0) == 2);
}

TEST_CASE("room for checkpoints: a new run needs it for one, and all are told of what will not fit", "[train]") {
  const TempFolder temp;
  Resolved config;
  config.checkpoint.dir = temp / "not/there/yet";
  constexpr Size kHuge = Size{1} << 60;
  CHECK(saver::require_space(config.checkpoint.dir, 1, 4, true).empty());
  CHECK_THROWS_WITH(saver::require_space(config.checkpoint.dir, kHuge, 1, true),
                    Catch::Matchers::StartsWith("checkpoint.dir " + config.checkpoint.dir + ": expected " +
                                                std::to_string(kHuge) + " bytes free for a checkpoint, found "));
  CHECK(saver::require_space(config.checkpoint.dir, kHuge, 1, false)
            .starts_with("checkpoint.dir " + config.checkpoint.dir + ": the run will add 1 checkpoint of "));
}

TEST_CASE("run folder: one run at a time has it", "[train]") {
  const TempFolder temp;
  Resolved config;
  config.run.dir = temp / "";
  const io::Descriptor lock(::open((temp / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(::flock(lock.get(), LOCK_EX) == 0);  // as another process would
  CHECK_THROWS_WITH(examine_run_folder(config, {}, std::chrono::milliseconds(0)),
                    "run.dir " + config.run.dir + ": expected a folder of its own, another run is at work in it");
}

TEST_CASE("run folder: a start that fails leaves an empty folder empty", "[train]") {
  const TempFolder temp;
  Resolved config;
  config.run.dir = temp / "", config.checkpoint.dir = temp / "checkpoints";
  {
    const RunFolder found = examine_run_folder(config, {}, std::chrono::milliseconds(0));
    CHECK(std::filesystem::exists(temp / ".lock"));
  }
  CHECK(std::filesystem::is_empty(config.run.dir));
}

TEST_CASE("run folder: what a start killed before its first file leaves is taken for nothing", "[train]") {
  const TempFolder temp;
  Resolved config;
  config.run.dir = temp / "", config.checkpoint.dir = temp / "checkpoints", config.resume = Resume::never,
  config.checkpoint.resume = "never";
  temp.write(".lock", "");
  temp.write("run.json.tmp-0123456789abcdef", "{");
  CHECK(!examine_run_folder(config, {}, std::chrono::milliseconds(0)).moves_aside);
  temp.write("other", "");
  CHECK_THROWS_WITH(examine_run_folder(config, {}, std::chrono::milliseconds(0)),
                    Catch::Matchers::ContainsSubstring("found files that do not belong to a run"));
}

TEST_CASE("run folder: one that another run makes during the start is refused", "[train]") {
  const TempFolder temp;
  Resolved config;
  config.run.dir = temp / "new", config.checkpoint.dir = temp / "checkpoints";
  config.resume = Resume::never, config.checkpoint.resume = "never";
  RunFolder found = examine_run_folder(config, {}, std::chrono::milliseconds(0));
  REQUIRE(std::filesystem::create_directory(config.run.dir));
  std::ofstream(config.run.dir + "/metrics.jsonl") << "a row of the other run\n";
  CHECK_THROWS_WITH(open_run_folder(config, found, Fresh{}, 1),
                    "run.dir " + config.run.dir + ": expected a folder of its own, another run has made it");
}
