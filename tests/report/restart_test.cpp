// Runs with several starts in one folder: which of their lines are used, and how a report describes the starts.
#include <string>

#include "report/metrics.h"
#include "report/report.h"
#include "report/run_files.h"
#include "report/segments.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::steps, fixture::write_text;

std::string event(const std::string& kind, int step, const std::string& more = "") {
  return R"({"event":")" + kind + R"(","step":)" + std::to_string(step) + more + "}\n";
}

lt::report::RunData read_lines(const TempFolder& folder, const std::string& lines) {
  write_text(folder.path() / "metrics.jsonl", lines);
  lt::report::RunData run;
  lt::report::read_metrics(run, (folder.path() / "metrics.jsonl").string());
  return run;
}

std::string report_of(const TempFolder& folder, const std::string& lines) {
  write_text(folder.path() / "metrics.jsonl", lines);
  lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
  return read_text(folder.path() / "report.md");
}

}  // namespace

TEST_CASE("restart: a run that starts over in its folder leaves nothing of the earlier one", "[report]") {
  const TempFolder folder;
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

TEST_CASE("restart: a run that resumes before its last step drops the later ones", "[report]") {
  const TempFolder folder;
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

TEST_CASE("restart: a start voids later rows even before it has any of its own", "[report]") {
  const TempFolder folder;
  CHECK(read_lines(folder, start_line(1) + steps(1, 9, 5, 100) + start_line(1, 4)).steps.size() == 4);
  CHECK(read_lines(folder, start_line(1) + steps(1, 9, 5, 100) + start_line(1)).steps.empty());
  // A start without a beginning step voids nothing.
  CHECK(read_lines(folder, steps(1, 9, 5, 100) + "{\"event\":\"start\"}\n").steps.size() == 9);
}

namespace {

constexpr const char* kZero3 = R"(,"strategy":"zero3","recompute":"full","dtype":"f32","micro_batch":4)";
constexpr const char* kDdp = R"(,"strategy":"ddp","recompute":"none","dtype":"f32","micro_batch":4)";

// 200 steps of 100 ms with zero3 on two ranks, then 50 of 50 ms with ddp on one.
std::string resumed_with_other_settings() {
  return start_line(2, 0, kZero3) + steps(1, 200, 5, 100) + start_line(1, 200, kDdp) + steps(201, 250, 4, 50);
}

}  // namespace

TEST_CASE("restart: speed and memory of a run resumed with other settings cover its last segment", "[report]") {
  const TempFolder folder;
  const std::string markdown = report_of(folder, resumed_with_other_settings());
  for (const char* text :
       {"1 rank · f32 · 250 steps · running\n", "| 41.0k (median, 50.0 ms per step) |",
        "speed and memory cover steps 201 to 250, losses cover all steps.",
        "| steps | ranks | strategy | recompute | tokens/s |", "| 1 to 200 | 2 | zero3 | full | 20.5k |",
        "| 201 to 250 | 1 | ddp | none | 41.0k |", "| Steps | 250 |",
        "| Steps that speed and memory cover | 201 to 250 |", "| Strategy | ddp |", "| Recomputation | none |",
        "| Ranks | 1 |", "| Training loss at the first step | 5.0000 nats |",
        "| Training loss, mean of the last 10 steps | 4.0000 nats |", "| Step, median | 50.0 ms |",
        "| forward | 12.50 | 25.0% |", "| backward | 37.50 | 75.0% |",
        "A step takes 50.0 ms on average, bound by computation (100%): "}) {
    INFO(text);
    CHECK(contains(markdown, text));
  }
  const std::string html = read_text(folder.path() / "report.html");
  CHECK(contains(html, "steps 1 to 200"));
  CHECK(contains(html, "steps 201 to 250"));
}

TEST_CASE("restart: a comparison covers the segment that it names", "[report]") {
  const TempFolder folder;
  write_text(folder.path() / "parts" / "metrics.jsonl", resumed_with_other_settings());
  write_text(folder.path() / "plain" / "metrics.jsonl", start_line(2, 0, kZero3) + steps(1, 50, 5, 100));
  lt::report::write_report({(folder.path() / "parts").string(), (folder.path() / "plain").string()},
                           (folder.path() / "out.html").string());
  const std::string markdown = read_text(folder.path() / "out.md");
  CHECK(contains(markdown,
                 "parts: the comparison covers steps 201 to 250 only, since earlier steps ran with other settings."));
  CHECK(contains(markdown, "| parts | single | 1 | 41.0k |"));
  CHECK(contains(markdown, "| plain | zero3 | 2 | 20.5k | 10.2k | 25% | 100.0 |"));
}

TEST_CASE("restart: a run that began from another's checkpoint says which steps it recorded", "[report]") {
  const TempFolder folder;
  const std::string lines = start_line(1, 10) + steps(11, 20, 4, 100);
  const std::string markdown = report_of(folder, lines);
  for (const char* text : {"1 rank · 20 steps (11 to 20 recorded here) · running\n", "| Steps | 20 |",
                           "| Steps recorded here | 11 to 20 |", "| Tokens of these steps | 20.5k |",
                           "| Training loss at step 11 | 4.0000 nats |", "| Time of these steps | 1.0 s |"}) {
    INFO(text);
    CHECK(contains(markdown, text));
  }
  const TempFolder two;
  write_text(two.path() / "whole" / "metrics.jsonl", start_line(1) + steps(1, 20, 4, 100));
  write_text(two.path() / "part" / "metrics.jsonl", lines);
  lt::report::write_report({(two.path() / "whole").string(), (two.path() / "part").string()},
                           (two.path() / "out.html").string());
  CHECK(contains(read_text(two.path() / "out.md"), "| whole | 20 | 41.0k | 4.0000 |"));
  CHECK(contains(read_text(two.path() / "out.md"), "| part | 11 to 20 | 20.5k | 4.0000 |"));
}

TEST_CASE("restart: what divides a run into segments", "[report]") {
  const TempFolder folder;
  const auto segments = [&](const std::string& lines) {
    write_text(folder.path() / "metrics.jsonl", lines);
    const auto run = lt::report::read_run(folder.path().string());
    std::string text;
    for (const auto& segment : run.segments) text += lt::report::range_text(segment) + "; ";
    return text;
  };
  const std::string first = start_line(2, 0, kZero3) + steps(1, 4, 5, 100);
  CHECK(segments(first) == "1 to 4; ");
  // The same settings again are the same segment,
  CHECK(segments(first + start_line(2, 4, kZero3) + steps(5, 6, 5, 100)) == "1 to 6; ");
  // also where one start says less of them.
  CHECK(segments(start_line(2) + steps(1, 4, 5, 100) + start_line(2, 4, kDdp) + steps(5, 6, 5, 100)) == "1 to 6; ");
  CHECK(segments(steps(1, 4, 5, 100) + start_line(2, 4, kDdp) + steps(5, 6, 5, 100)) == "1 to 6; ");
  CHECK(segments(first + start_line(4, 4, kZero3) + step_line(5, 5, 100)) == "1 to 4; 5; ");
  // There and back are three segments, and what was superseded is in none.
  CHECK(segments(first + start_line(2, 4, kDdp) + steps(5, 6, 5, 100) + start_line(2, 6, kZero3) +
                 steps(7, 8, 5, 100)) == "1 to 4; 5 to 6; 7 to 8; ");
  CHECK(segments(first + start_line(2, 4, kDdp) + steps(5, 6, 5, 100) + start_line(2, 4, kZero3) +
                 steps(5, 8, 5, 100)) == "1 to 8; ");
}

TEST_CASE("restart: a start without steps says nothing about earlier steps", "[report]") {
  const TempFolder folder;
  const std::string lines = start_line(2, 0, kZero3) + steps(1, 4, 5, 100);
  const std::string markdown = report_of(folder, lines + start_line(1, 4, kDdp));
  CHECK(contains(markdown, "| Ranks | 2 |"));
  CHECK(contains(markdown, "| Strategy | zero3 |"));
  CHECK_FALSE(contains(markdown, "other settings"));
  CHECK(contains(report_of(folder, start_line(3, 0, kZero3)), "| Ranks | 3 |"));
}

namespace {

std::string restart(int attempt, const std::string& step, const std::string& lost, double seconds) {
  return R"({"event":"restart","attempt":)" + std::to_string(attempt) + R"(,"step":)" + step +
         R"row(,"cause":"rank 1 was killed (SIGKILL)","exit_code":137,"lost_steps":)row" + lost +
         R"(,"down_seconds":{"notice":1.5,"backoff":0,"start":)" + std::to_string(seconds) + R"(,"total":)" +
         std::to_string(1.5 + seconds) + "}}\n";
}

}  // namespace

TEST_CASE("restart: restarts make a table, and a finding if they cost enough", "[report]") {
  const TempFolder folder;
  const std::string lines = start_line(2) + steps(1, 40, 5, 100) + start_line(2, 20) + step_line(21, 5, 100) +
                            restart(2, "20", "20", 0.5) + steps(22, 30, 5, 100) + start_line(2, 10) +
                            step_line(11, 5, 100) + restart(3, "10", "20", 2.5);
  const auto run = read_lines(folder, lines + steps(12, 30, 5, 100));
  REQUIRE(run.restarts.size() == 2);  // also the one whose step a later start superseded
  CHECK(run.restarts[0].lost_steps == 20);
  CHECK(run.restarts[1].total_s == 4);
  const std::string markdown = report_of(folder, lines + steps(12, 30, 5, 100));
  for (const char* text : {"The run was restarted 2 times: 6.0 s down, 40 steps repeated.",
                           "| 2 | rank 1 was killed (SIGKILL) | 20 | 20 | 2.00 | 1.50 | 0.00 | 0.50 |",
                           "| 3 | rank 1 was killed (SIGKILL) | 10 | 20 | 4.00 | 1.50 | 0.00 | 2.50 |",
                           // 6 s and 40 steps of 0.1 s beside the 3 s of the steps that count
                           "2 restarts took 10.0 of 13.0 s of steps, repeated steps and time down (77%): 6.0 s down, "
                           "and 4.0 s for 40 steps "
                           "that were repeated. Of the time down, 3.0 s"}) {
    INFO(text);
    CHECK(contains(markdown, text));
  }
  // A later segment's speed says nothing of the steps that were repeated before it.
  const std::string slow = start_line(2) + steps(1, 40, 5, 1000) + start_line(2, 20) + restart(2, "20", "20", 0.5) +
                           steps(21, 40, 5, 1000) + start_line(8, 40) + steps(41, 200, 5, 10);
  CHECK(contains(report_of(folder, slow), "2.0 s down, and 20.0 s for 20 steps that were repeated."));
  report_of(folder, lines + steps(12, 30, 5, 100));
  // A restart is marked where the axis has its step.
  const std::string page = read_text(folder.path() / "report.html");
  CHECK(contains(page, "class=\"at\""));
  CHECK(contains(page, "<p class=\"note\">Dotted: a restart.</p>"));
  CHECK(contains(markdown, "| Tokens per second, with restarts and repeated steps | "));
  // A cheap restart is only in the table; one without a step has dashes.
  constexpr const char* kMark = "<path class=\"at\"";
  const std::string cheap = report_of(folder, start_line(2) + steps(1, 2000, 5, 100) + restart(2, "null", "null", 0.5));
  CHECK_FALSE(contains(read_text(folder.path() / "report.html"), kMark));
  report_of(folder, start_line(2) + restart(2, "0", "3", 0.5) + steps(1, 20, 5, 100));  // it began anew
  CHECK(contains(read_text(folder.path() / "report.html"), kMark));
  CHECK(contains(cheap, "| 2 | rank 1 was killed (SIGKILL) | – | – | 2.00 | 1.50 | 0.00 | 0.50 |"));
  CHECK_FALSE(contains(cheap, "of the run's time"));
  CHECK_FALSE(contains(report_of(folder, start_line(2) + steps(1, 20, 5, 100)), "was restarted"));
}

TEST_CASE("restart: failed saves stay in the report, even those after the step that a start resumes from", "[report]") {
  const TempFolder folder;
  const std::string failed = R"(,"error":"cannot write: No space left on device","attempt":1,"retry_step":9)";
  const std::string lines = start_line(1) + steps(1, 9, 5, 100) + event("checkpoint", 4) +
                            event("checkpoint_failed", 6, failed) + event("checkpoint_failed", 8, failed) +
                            start_line(1, 4) + steps(5, 9, 5, 100);
  CHECK(contains(report_of(folder, lines),
                 "| Saves that failed | 2, the last at step 8: cannot write: No space left on device |"));
}
