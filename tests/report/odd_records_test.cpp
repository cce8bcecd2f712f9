// Reports of records that lack something or hold unusual values.
#include <filesystem>
#include <string>
#include <vector>

#include "drawing/ticks.h"
#include "io/shell_word.h"
#include "libtrain/error.h"
#include "report/data.h"
#include "report/findings.h"
#include "report/report.h"
#include "report/run_files.h"
#include "report/svg_chart.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::steps, fixture::write_text;
using lt::report::figure, lt::report::LineChart, lt::report::Series;

// The text with `from`, which occurs in it, replaced by `to` everywhere.
std::string with(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(contains(text, from));
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The Markdown of a report of these runs, each the text of a metrics.jsonl; `html` is its page.
std::string report_of(const std::vector<std::string>& runs, std::string* html = nullptr) {
  const TempFolder folder;
  std::vector<std::string> folders;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    folders.push_back((folder.path() / std::string(1, static_cast<char>('a' + i))).string());
    write_text(std::filesystem::path(folders.back()) / "metrics.jsonl", runs[i]);
  }
  lt::report::write_report(folders, (folder.path() / "report.html").string());
  if (html != nullptr) *html = read_text(folder.path() / "report.html");
  return read_text(folder.path() / "report.md");
}

std::string skip(int step) {
  return R"({"event":"skip","step":)" + std::to_string(step) +
         R"(,"reason":"no target counts","loss_scale":1})"
         "\n";
}

}  // namespace

TEST_CASE("report: a step without a counted target has no loss", "[report]") {
  const std::string nowhere = R"({"event":"skip","reason":"no target counts"})";
  const std::string markdown = report_of({start_line(1) + step_line(1, 0, 100) + skip(1) + steps(2, 11, 4) +
                                          step_line(12, 0, 100) + skip(12) + nowhere + "\n"});
  CHECK(contains(markdown, "| Training loss, mean of the 9 finite of the last 10 steps | 4.0000 nats |"));
  CHECK_FALSE(contains(markdown, "Training loss at the first step"));
  CHECK(contains(markdown, "| 12 | – |"));
}

TEST_CASE("report: losses and steps are counted as they are", "[report]") {
  CHECK(contains(report_of({start_line(1) + steps(1, 1, 4)}),
                 "| Training loss, mean of the last 1 step | 4.0000 nats |"));
  const std::string lost = report_of({start_line(1) + steps(1, 5, 4) + steps(15, 30, 4)});
  CHECK(contains(lost, "| Steps whose rows are lost, left out of tokens, losses and time | 9 |"));
  std::string html;
  const std::string far = report_of({start_line(1, 1234559) + steps(1234560, 1234859, 4) +
                                     R"({"event":"eval","step":1234567,"loss":2.5})"
                                     "\n"},
                                    &html);
  CHECK(contains(far, "| Evaluation loss, best | 2.5000 nats at step 1234567 |"));
  CHECK(contains(html, "1234560 to 1234"));
  CHECK_FALSE(contains(html, "e+06"));
}

TEST_CASE("report: an activity of another version counts as other", "[report]") {
  const std::string odd = with(start_line(1) + steps(1, 10, 4), R"("parts_ms":{)",
                               R"("parts_ms":{"new":{"min":300,"mean":300,"max":300,"rank":0},)");
  CHECK(contains(report_of({odd}), "A step takes 400.0 ms on average, bound by other (75%): "));
}

TEST_CASE("report: a comparison of runs that lack something", "[report]") {
  const std::string alone = start_line(1) + steps(1, 8, 4, 200), two = start_line(2) + steps(1, 8, 4, 120);
  std::string html;
  report_of({start_line(1), alone, two}, &html);  // the first has no step yet
  CHECK(contains(html, "1|10.2k|10.2k;2|17.1k|20.5k"));
  CHECK(contains(report_of({start_line(1), alone, two}), "All process the same number of tokens per step, so"));
  const std::string no_ranks = with(with(two, R"("ranks":2,)", ""), R"("tokens_per_s_per_rank")", R"("none")");
  CHECK_FALSE(contains(report_of({with(no_ranks, R"(:120)", ":60"), alone}), "nan ranks"));
  const std::string no_memory = with(alone, "memory_peak_bytes", "none");
  CHECK(contains(report_of({no_memory, two}), "The least memory on a rank takes b (– on 2 ranks) with 6.00 MiB."));
}

TEST_CASE("report: names and texts of any bytes", "[report]") {
  const TempFolder folder;
  write_text(folder.path() / "run" / "metrics.jsonl", start_line(1) + steps(1, 4, 4));
  write_text(folder.path() / "run" / "config.toml", R"([run]
name = "a <b> \"q\" \\< x"
)");
  write_text(folder.path() / "run" / "samples" / "step-00000004.txt", "before\xca\x01 after");
  lt::report::write_report({(folder.path() / "run").string()}, (folder.path() / "report.html").string());
  const std::string markdown = read_text(folder.path() / "report.md");
  CHECK(contains(markdown, " a &lt;b> \"q\" \\&lt; x (run)"));
  CHECK(contains(markdown, "before\xEF\xBF\xBD\xEF\xBF\xBD after"));
}

TEST_CASE("report: a metrics.jsonl that cannot be read is not one that is missing", "[report]") {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "metrics.jsonl");
  try {
    lt::report::read_run(folder.path().string());
    FAIL("a folder was read");
  } catch (const lt::DataError& error) {
    CHECK(contains(error.what(), "metrics.jsonl: expected a readable file, found: a folder"));
  }
}

TEST_CASE("charts: a line has a gap where points are missing, and whole places where they are whole", "[report]") {
  LineChart chart{.title = "t", .x_label = "step", .y_label = "y", .whole_x = true};
  chart.series = {{.name = "a", .x = {1, 2, 3, 4}, .y = {10, lt::report::kMissing, 20, 30}}};
  const std::string gap = figure(chart);
  const std::size_t line = gap.find("<path class=\"s0\"");
  const std::string path = gap.substr(line, gap.find("/>", line) - line);
  CHECK(contains(path, "m"));
  CHECK_FALSE(contains(gap, ">1.5</text>"));
  chart.series = {{.name = "a", .x = {1, 2, 3, 4, 5}, .y = {1, lt::report::kMissing, 2, lt::report::kMissing, 3}}};
  CHECK(contains(figure(chart), "h0m"));  // a dot, where a point has no neighbour
  chart.series = {{.name = "a", .x = {1}, .y = {1}}};
  CHECK_FALSE(contains(figure(chart), ">-"));
}

TEST_CASE("charts: a series keeps its colour beside one without points, and the legend tells ten apart", "[report]") {
  LineChart chart{.title = "t", .x_label = "step", .y_label = "y"};
  for (int i = 0; i < 11; ++i) chart.series.push_back({.name = "n" + std::to_string(i), .x = {1, 2}, .y = {1, 2}});
  chart.series[0].y = {lt::report::kMissing, lt::report::kMissing};
  const std::string drawn = figure(chart);
  CHECK_FALSE(contains(drawn, "n0<"));
  CHECK(contains(drawn, "<i class=\"k1\"></i>n1<"));
  CHECK(contains(drawn, "<i class=\"k1 dash\"></i>n10<"));
  CHECK(contains(drawn, "<path class=\"s1 dash\""));
}

TEST_CASE("ticks: very large and very small numbers have a power of ten", "[drawing]") {
  using lt::drawing::tick_texts;
  CHECK(tick_texts({0, 1e38, 2e38}) == std::vector<std::string>{"0", "1e+38", "2e+38"});
  CHECK(tick_texts({1e-12, 1.5e-12, 2e-12}) == std::vector<std::string>{"1.0e-12", "1.5e-12", "2.0e-12"});
  CHECK(tick_texts({0, 5e8, 1e9}) == std::vector<std::string>{"0", "0.5G", "1.0G"});
}

TEST_CASE("io: a word is quoted for a shell where it must be", "[io]") {
  CHECK(lt::io::shell_word("runs/a-b_c.toml") == "runs/a-b_c.toml");
  CHECK(lt::io::shell_word("it's (1)") == "'it'\\''s (1)'");
  CHECK(lt::io::shell_word("") == "''");
}
