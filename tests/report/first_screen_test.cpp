// The first screen of a report: one line, four figures, the losses, one bar of phases, and folded findings.
#include <regex>
#include <string>
#include <vector>

#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::steps,
    fixture::write_text;

struct Pages {
  std::string html, markdown;
};

Pages pages_of(const TempFolder& folder, const std::string& metrics) {
  write_text(folder.path() / "metrics.jsonl", metrics);
  lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
  return {read_text(folder.path() / "report.html"), read_text(folder.path() / "report.md")};
}

// Ten steps of 100 ms on two ranks, of which 30 ms are waits for gathers.
std::string waiting_run() {
  std::string text = steps(1, 10, 4, 70);
  const std::string from = R"("parts_ms":{)", to = from + R"("gather_exposed":{"min":0,"mean":30,"max":60,"rank":0},)"
                                                          R"("checkpoint":{"min":0,"mean":0,"max":0,"rank":0},)";
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return start_line(2, 0, R"(,"strategy":"zero3","dtype":"f32","parameters":859000,"flops_per_token":5e6)") + text;
}

const std::string kComplete = R"({"event":"end","step":10,"reason":"steps","seconds":1})"
                              "\n";

void write_config(const TempFolder& folder, const std::string& device) {
  write_text(folder.path() / "config.toml",
             "[model]\npreset = \"gpt-tiny\"\n[train]\nsteps = 10\ndevice = \"" + device + "\"\n");
}

// Every first group of `pattern` in the text.
std::vector<std::string> found(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) all.push_back((*at)[1]);
  return all;
}

double sum_of(const std::vector<std::string>& numbers) {
  double sum = 0;
  for (const std::string& number : numbers) sum += std::stod(number);
  return sum;
}

// Checks that these texts occur in the page, in this order.
void check_order(const std::string& page, const std::vector<std::string>& texts) {
  std::size_t at = 0;
  for (const std::string& text : texts) {
    INFO(text);
    const std::size_t next = page.find(text, at);
    CHECK(next != std::string::npos);
    at = next == std::string::npos ? at : next;
  }
}

}  // namespace

TEST_CASE("first screen: a line, four figures, the losses, one bar, folded findings, and then the sections",
          "[report]") {
  const TempFolder folder;
  write_config(folder, "cpu");
  write_text(folder.path() / "env.json", R"({"ranks_on_host":2,"memory_bytes":4294967296})");
  const std::string evaluation = R"({"event":"eval","step":10,"loss":3.125,"batches":2})"
                                 "\n";
  for (const bool evaluated : {true, false}) {
    const auto [html, markdown] = pages_of(folder, waiting_run() + (evaluated ? evaluation : "") + kComplete);
    const std::string line = "gpt-tiny · 859k parameters · zero3 · 2 ranks on CPU · f32 · 10 of 10 steps · complete",
                      note = evaluated ? "evaluation 3.1250 at step 10" : "4.0000 at step 1";
    CHECK(markdown.starts_with("# Training report: " + folder.path().filename().string() + "\n\n" + line +
                               "\n\n| Loss, mean of 10 steps | Tokens per second | Computation per rank | Peak memory, "
                               "fullest rank |\n| --- | --- | --- | --- |\n| 4.0000 nats (" +
                               note +
                               ") | 29.3k (median, 70.0 ms per step) | 73.1 GFLOP/s (no MFU: the peak is unknown) | "
                               "6.00 MiB (process: 7.00 MiB of 2.00 GiB) |\n\nChart: Loss (in report.html)\n\n"
                               "A step takes 100.0 ms on average, bound by computation (70%): gather exposed 30.0 ms "
                               "(30%), forward 17.5 ms (18%), backward 52.5 ms (52%).\n\n## Findings\n\n"));
    check_order(html, {"<h1", "<p>" + line + "</p>", "<dl class=\"tiles\">", "<dt>Loss, mean of 10 steps</dt>",
                       "<dd class=\"value\">4.0000 nats</dd><dd>" + note + "</dd>", "<figcaption>Loss</figcaption>",
                       "<figcaption>A step takes 100.0 ms", "<h2 id=\"findings\">", "<ol class=\"folded\">",
                       "<nav aria-label=\"Contents\">", "Key figures</h2>", "Training</h2>"});
    CHECK(found(html, "(<dt>)").size() == 4);
    CHECK(contains(html, "evaluation</li>") == evaluated);

    // One bar, whose parts are the step. A phase that took no time is not in it.
    CHECK(found(html, "(class=\"stack whole\")").size() == 1);
    const std::size_t bar_at = html.find("stack whole");
    const std::string bar = html.substr(bar_at, html.find("</figure>", bar_at) - bar_at);
    const auto milliseconds = found(bar, "title=\"[a-z ]+ ([0-9.]+) ms");
    CHECK(milliseconds.size() == 3);
    CHECK(sum_of(milliseconds) == Approx(100));
    CHECK(sum_of(found(bar, "width:([0-9.]+)%")) == Approx(100));

    // A finding is a line with its cost; its reasons are folded in HTML, and indented in Markdown.
    CHECK_FALSE(contains(html, "<details open"));
    CHECK(contains(html,
                   "<li><details data-key=\"computation\"><summary><b>Computation</b>: 70% of a step</summary>"
                   "<p>Forward takes 17.5 ms"));
    CHECK(contains(markdown, "1. **Computation**: 70% of a step\n\n   Forward takes 17.5 ms"));
    CHECK(contains(markdown, ". **Gathered parameters arrive late**: 23% of a step\n\n   Waiting for "));
  }
}

TEST_CASE("first screen: a run on GPUs has its MFU and the planned memory", "[report]") {
  const TempFolder folder;
  write_config(folder, "cuda");
  write_text(folder.path() / "env.json", R"({"gpu":"NVIDIA H200"})");
  std::string metrics = waiting_run();
  for (std::size_t at = 0; (at = metrics.find(R"("mfu":null)", at)) != std::string::npos;)
    metrics.replace(at, 10, R"("mfu":0.41)");
  const std::string markdown = pages_of(folder, metrics + kComplete).markdown;
  CHECK(contains(markdown, " · zero3 · 2 ranks on NVIDIA H200 · f32 · "));
  CHECK(contains(markdown, "| MFU | Peak memory, fullest rank |"));
  CHECK(contains(markdown, "| 41.0% (73.1 GFLOP/s per rank) | 6.00 MiB (6.00 MiB planned) |"));
}

TEST_CASE("first screen: it says in one line that the run was restarted, and in another which steps speed covers",
          "[report]") {
  const TempFolder folder;
  write_config(folder, "cpu");
  const std::string restart = R"({"event":"restart","attempt":2,"step":10,"lost_steps":3,"cause":"rank 1 died",)"
                              R"("down_seconds":{"notice":1,"backoff":0,"start":1,"total":2}})"
                              "\n";
  const std::string resumed = start_line(1, 10, R"(,"strategy":"ddp","dtype":"f32")") + steps(11, 14, 4);
  const auto [html, markdown] = pages_of(folder, waiting_run() + restart + resumed);
  CHECK(contains(markdown,
                 "\n\nThe run was restarted once: 2.0 s down, 3 steps repeated.\n\nResumed with other "
                 "settings: speed and memory cover steps 11 to 14, losses cover all steps.\n\n| Loss"));
  check_order(html, {"<p>The run was restarted once", "<dl class=\"tiles\">",
                     "<b>Restarts</b>: ", " of the run's time</summary>", "Key figures</h2>", "<td>1 to 10</td>"});
}

TEST_CASE("first screen: without a breakdown of a step there is no bar, and the third figure has no number",
          "[report]") {
  const TempFolder folder;
  const auto [html, markdown] = pages_of(folder, R"({"step":1,"loss":3,"step_ms":10,"tokens":32,"tokens_per_s":3200})"
                                                 "\n");
  CHECK(contains(markdown, "| 3.0000 nats | 3.20k (median, 10.0 ms per step) | – | – |"));
  CHECK_FALSE(contains(html, "stack whole"));
  CHECK_FALSE(contains(html, "Findings"));
}

TEST_CASE("first screen: in a comparison each run has its own, below the comparison", "[report]") {
  const TempFolder folder;
  for (const char* name : {"a", "b"}) write_text(folder.path() / name / "metrics.jsonl", waiting_run() + kComplete);
  lt::report::write_report({(folder.path() / "a").string(), (folder.path() / "b").string()},
                           (folder.path() / "out.html").string());
  const std::string html = read_text(folder.path() / "out.html");
  check_order(html, {"<nav", "What bounds each run</h2>", "<h2 id=\"a\">", "<dl class=\"tiles\">",
                     "<h3 id=\"findings\">", "data-key=\"computation\"", "<h2 id=\"b\">", "<dl class=\"tiles\">",
                     "<h3 id=\"findings-2\">", "data-key=\"computation-2\""});
  CHECK(found(html, "(<nav )").size() == 1);
}
