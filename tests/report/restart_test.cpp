// Runs that were started more than once in their folder: what counts of their lines, and what a report says of them.
#include <string>

#include "libtrain/report.h"
#include "report/metrics.h"
#include "run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::Folder, fixture::read, fixture::start_line, fixture::step_line, fixture::write;

std::string steps(int first, int last, double loss, double ms) {
  std::string text;
  for (int step = first; step <= last; ++step) text += step_line(step, loss, ms);
  return text;
}

std::string event(const std::string& kind, int step, const std::string& more = "") {
  return R"({"event":")" + kind + R"(","step":)" + std::to_string(step) + more + "}\n";
}

lt::report::RunData read_lines(const Folder& folder, const std::string& lines) {
  write(folder.path / "metrics.jsonl", lines);
  lt::report::RunData run;
  lt::report::read_metrics(run, (folder.path / "metrics.jsonl").string());
  return run;
}

std::string report_of(const Folder& folder, const std::string& lines) {
  write(folder.path / "metrics.jsonl", lines);
  lt::write_report({folder.path.string()}, (folder.path / "report.html").string());
  return read(folder.path / "report.md");
}

}  // namespace

TEST_CASE("restart: a run that starts over in its folder leaves nothing of what was there", "[report]") {
  const Folder folder("over");
  const std::string lines = start_line(1) + steps(1, 250, 5, 100) + event("eval", 200, R"(,"loss":4)") +
                            event("checkpoint", 250) + event("end", 250) + start_line(1) + steps(1, 20, 9, 100) +
                            event("eval", 20, R"(,"loss":8)") + event("checkpoint", 20);
  const auto run = read_lines(folder, lines);
  REQUIRE(run.steps.size() == 20);
  for (const auto& step : run.steps) CHECK(step.loss == 9);
  REQUIRE(run.evals.size() == 1);
  CHECK(run.evals[0].loss == 8);
  REQUIRE(run.events.size() == 3);  // both starts, and the new checkpoint
  CHECK(run.events[2].step == 20);
  const std::string markdown = report_of(folder, lines);
  CHECK(contains(markdown, "| Steps | 20 |"));
  CHECK(contains(markdown, "| Training loss at the first step | 9.0000 nats |"));
  CHECK_FALSE(contains(markdown, "| 250 |"));
}

TEST_CASE("restart: a run that resumes before its last step loses what it had beyond", "[report]") {
  const Folder folder("before");
  const auto run = read_lines(folder, start_line(1) + steps(1, 6, 5, 100) + event("checkpoint", 4) +
                                          event("eval", 4, R"(,"loss":4)") + steps(7, 9, 5, 100) +
                                          event("eval", 8, R"(,"loss":4)") + event("checkpoint", 8) +
                                          R"({"event":"note"})"
                                          "\n" +
                                          start_line(1, 4) + steps(5, 6, 3, 100));
  REQUIRE(run.steps.size() == 6);
  for (const auto& step : run.steps) CHECK(step.loss == (step.step <= 4 ? 5 : 3));
  REQUIRE(run.evals.size() == 1);
  CHECK(run.evals[0].step == 4);
  std::string kinds;
  for (const auto& e : run.events) kinds += e.kind + " ";
  CHECK(kinds == "start checkpoint note start ");
}

TEST_CASE("restart: rows are void from the start on, before it has any of its own", "[report]") {
  const Folder folder("none");
  CHECK(read_lines(folder, start_line(1) + steps(1, 9, 5, 100) + start_line(1, 4)).steps.size() == 4);
  CHECK(read_lines(folder, start_line(1) + steps(1, 9, 5, 100) + start_line(1)).steps.empty());
  // A start that does not say where it begins makes nothing void.
  CHECK(read_lines(folder, steps(1, 9, 5, 100) + "{\"event\":\"start\"}\n").steps.size() == 9);
}
