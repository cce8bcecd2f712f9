// The supervisor's view of a run's folder: the states that an attempt has saved, and the restart events.
#include "launch/supervisor/run_state.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/descriptor.h"
#include "io/whole_file.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using lt_test::TempFolder;

TEST_CASE("saved: a checkpoint older than a damaged one is more than before", "[launch]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "";
  const launch::RunState run(config);
  const auto save = [&](const std::string& step) { temp.write("checkpoints/" + step + "/manifest.json", "{}"); };
  CHECK(run.saved().is_empty());
  save("step-00003000");
  const launch::RunState::Saved before = run.saved();
  CHECK_FALSE(run.saved().has_more_than(before));
  save("step-00000040");
  CHECK(run.saved().has_more_than(before));
  CHECK(run.saved_step() == 3000);
  std::filesystem::remove_all(temp / "checkpoints/step-00000040");
  CHECK_FALSE(run.saved().has_more_than(before));
}

TEST_CASE("saved: a run that moved another one aside has what it saved itself", "[launch]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "run";
  const launch::RunState run(config);
  const auto save = [&](const std::string& step) { temp.write("run/checkpoints/" + step + "/manifest.json", "{}"); };
  save("step-00000100"), save("step-00000200");
  const launch::RunState::Saved before = run.saved();
  std::filesystem::rename(temp / "run", temp / "run.old-1");
  std::filesystem::create_directories(temp / "run/checkpoints");
  CHECK_FALSE(run.saved().has_more_than(before));
  save("step-00000100");
  CHECK(run.saved().has_more_than(before));
}

TEST_CASE("restart event: not among the metrics of another run that is at work in the folder", "[launch]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "";
  const std::string metrics = temp / "metrics.jsonl", row = "{\"step\":1,\"loss\":2.5}\n";
  std::ofstream(metrics) << row;
  const launch::RunState run(config);
  const run::Restart restart{.attempt = 2, .cause = "rank 1 ended with code 75", .exit_code = 75};
  {
    const io::Descriptor lock(::open((temp / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(::flock(lock.get(), LOCK_EX) == 0);  // as the other run does
    CHECK_THROWS_WITH(run.record(restart, run.metrics_end(), std::chrono::seconds(0)),
                      "run.dir " + config.run.dir + ": another run, or a rank of this one elsewhere, is at work in it");
    CHECK(io::read_file(metrics).text == row);
  }
  run.record(restart, run.metrics_end());
  CHECK(io::read_file(metrics).text.starts_with(row + "{\"event\":\"restart\","));
}

TEST_CASE("restart event: an attempt that cut off a torn line has its step", "[launch]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "";
  const std::string metrics = temp / "metrics.jsonl", row = "{\"step\":5,\"loss\":2.5}\n";
  const launch::RunState run(config);
  CHECK(run.metrics_end().bytes == 0);
  std::ofstream(metrics) << row;
  CHECK(run.metrics_end().bytes == row.size());
  std::ofstream(metrics, std::ios::app) << "{\"step\":6,\"lo";
  const launch::RunState::MetricsEnd end = run.metrics_end();
  CHECK(end.bytes == row.size());
  std::filesystem::resize_file(metrics, row.size());  // as the attempt does
  std::ofstream(metrics, std::ios::app) << "{\"event\":\"start\",\"step\":4}\n{\"step\":5,\"lo";
  run.record({.attempt = 2, .cause = "rank 1 was killed (SIGKILL)", .exit_code = 137}, end);
  const std::string text = io::read_file(metrics).text, event = text.substr(text.rfind("\n", text.size() - 2) + 1);
  CHECK(event.starts_with("{\"event\":\"restart\",\"attempt\":2,\"step\":4,"));
  CHECK(event.find("\"lost_steps\":1,") != std::string::npos);
}

TEST_CASE("stopped: by the run's own record of this attempt, not of an earlier one", "[launch]") {
  const TempFolder temp;
  Config config;
  config.run.dir = temp / "";
  const std::string metrics = temp / "metrics.jsonl";
  const launch::RunState run(config);
  CHECK_FALSE(run.was_stopped(run.metrics_end()));
  const auto ends = [&](const std::string& reason) {
    const launch::RunState::MetricsEnd begin = run.metrics_end();
    std::ofstream(metrics, std::ios::app)
        << R"({"step":5,"loss":2.5})" << '\n'
        << R"({"event":"end","step":5,"reason":")" + reason + R"(","seconds":1})" << '\n';
    return run.was_stopped(begin) && !run.was_stopped(run.metrics_end());
  };
  CHECK(ends("max_minutes"));
  CHECK(ends("signal SIGUSR1"));
  CHECK_FALSE(ends("steps"));
  CHECK_FALSE(ends("program"));
}
