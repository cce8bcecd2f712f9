// The table row of a followed run that is in progress, is silent, or has ended.
#include "report/live.h"

#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::TempFolder, fixture::start_line, fixture::step_line, fixture::write_text;

// Forty steps of 500 ms, of a hundred, on two ranks.
lt::report::RunData read(const TempFolder& folder, const std::string& more) {
  std::string text = start_line(2);
  for (int step = 1; step <= 40; ++step) text += step_line(step, 3, 500);
  write_text(folder.path() / "config.toml", "[train]\nsteps = 100\n");
  write_text(folder.path() / "metrics.jsonl", text + more);
  return lt::report::read_run(folder.path().string());
}

std::vector<std::string> cells(const lt::report::RunData& run) { return lt::report::now({run}).rows.at(0); }

}  // namespace

TEST_CASE("report --follow: progress, rate, time left and the slowest rank of a run that goes on", "[report]") {
  const TempFolder folder;
  auto run = read(folder, "");
  run.changed_at = 1000, run.read_at = 1009;
  const std::vector<std::string> expected = {"running", "40 of 100",        "4.10k", "30s",
                                             "none",    "rank 1: 20 of 20", "none"};
  const auto row = cells(run);
  CHECK(std::vector<std::string>(row.begin() + 1, row.end()) == expected);
  CHECK_FALSE(lt::report::all_ended({run}));
  run.read_at = 1011;
  CHECK(cells(run)[1] == "no new line since 1970-01-01 00:16:40 UTC");
  CHECK(cells(run)[4] == "–");  // a silent run does not come nearer to its end
}

TEST_CASE("report --follow: a run has ended if its last attempt has", "[report]") {
  const TempFolder folder;
  const std::string end = "{\"event\":\"end\",\"step\":40,\"reason\":\"signal SIGTERM\",\"seconds\":1}\n";
  auto ended = read(folder, end);
  CHECK(cells(ended)[1] == "stopped by SIGTERM");
  CHECK(cells(ended)[4] == "–");
  CHECK_FALSE(lt::report::all_ended({ended}));  // a supervisor may start it again
  ended.changed_at = 1000, ended.read_at = 1061;
  CHECK(lt::report::all_ended({ended}));
  const std::string skip = R"({"event":"skip","step":40,"reason":"non-finite loss or gradient")";
  const auto not_finite = read(folder, skip + "}\n");  // such a run has no end event
  CHECK(cells(not_finite)[1] == "stopped: loss or gradient not finite");
  CHECK(lt::report::all_ended({not_finite}));
  CHECK_FALSE(lt::report::all_ended({read(folder, skip + R"(,"loss_scale":8})"
                                                         "\n")}));  // f16 goes on
  const auto again = read(folder, end + start_line(2, 40));
  CHECK_FALSE(lt::report::all_ended({ended, again}));
}
