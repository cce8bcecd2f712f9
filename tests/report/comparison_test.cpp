// Reports of several runs: equal curves, the first step that differs, differences within noise, and hybrid runs.
#include <cmath>
#include <sstream>
#include <string>

#include "report/agreement.h"
#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::write_text;
namespace fs = std::filesystem;

// The row of step_line() with the loss's bits, as hexfloat.
std::string exact_line(int step, double loss, const std::string& hex, double ms = 100) {
  std::string line = step_line(step, loss, ms);
  return line.insert(line.find(",\"grad_norm\""), ",\"loss_hex\":\"" + hex + "\"");
}

// `count` steps whose loss is 3 + offset(step); the bits follow from the loss.
template <class Offset>
std::string run_text(int count, Offset offset, double ms = 100) {
  std::string text = start_line(1);
  for (int step = 1; step <= count; ++step) {
    std::ostringstream hex;
    hex << std::hexfloat << 3 + offset(step);
    text += exact_line(step, 3 + offset(step), hex.str(), ms);
  }
  return text;
}

std::string compared(const TempFolder& folder, const std::vector<std::string>& runs) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const fs::path run = folder.path() / std::string(1, static_cast<char>('a' + i));
    write_text(run / "metrics.jsonl", runs[i]);
    paths.push_back(run.string());
  }
  lt::report::write_report(paths, (folder.path() / "out.html").string());
  return read_text(folder.path() / "out.md");
}

}  // namespace

TEST_CASE("report: equal losses are said to be equal bit by bit, others with their first difference", "[report]") {
  const TempFolder folder;
  const auto flat = [](int) { return 0.0; };
  const std::string text = compared(
      folder, {run_text(20, flat), run_text(20, flat), run_text(20, [](int s) { return s == 7 ? 0x1p-50 : 0; })});
  CHECK(contains(text, "**b.** Its losses equal those of a, bit by bit, in the 20 steps that both have."));
  CHECK(contains(text, "**c.** Its losses first differ from those of a at step 7: "));
  CHECK(contains(text, "All process the same number of tokens per step."));  // one rank each: nothing was scaled
}

TEST_CASE("report: losses that differ only in bits that JSON does not show differ", "[report]") {
  const TempFolder folder;
  const std::string one = start_line(1) + exact_line(1, 3.5, "0x1.cp+1") + exact_line(2, 3.25, "0x1.ap+1");
  const std::string other = start_line(1) + exact_line(1, 3.5, "0x1.cp+1") + exact_line(2, 3.25, "0x1.a000002p+1");
  CHECK(contains(compared(folder, {one, other}), "first differ from those of a at step 2"));
}

TEST_CASE("report: runs without loss_hex are equal only as printed", "[report]") {
  const TempFolder folder;
  const std::string run = start_line(1) + step_line(1, 3.5, 100) + step_line(2, 3.25, 100);
  CHECK(
      contains(compared(folder, {run, run}),
               "Its losses equal those of a, as printed (without loss_hex, bits cannot be compared), in the 2 steps"));
}

TEST_CASE("report: a difference of losses is called noise only if it is within two standard errors", "[report]") {
  const TempFolder folder;
  const auto wave = [](int step) { return step % 2 == 0 ? 0.1 : -0.1; };
  const std::string text = compared(folder, {run_text(100, [](int) { return 0.001; }), run_text(100, wave),
                                             run_text(100, [&](int step) { return wave(step) + 0.5; })});
  CHECK(contains(text, "**b.** Its losses first differ from those of a at step 1"));
  CHECK(contains(text, "on average, within two standard errors of the steps' differences"));
  CHECK(contains(text, "its loss is 0.5 nats higher on average, more than two standard errors"));
}

TEST_CASE("report: what is said of losses that are not finite, of other batches and of runs without a common step",
          "[report]") {
  const TempFolder folder;
  const std::string not_a_number = start_line(1) + exact_line(1, 3, "nan"),
                    negative = start_line(1) + exact_line(1, 3, "-nan");
  const auto null = [](std::string text) { return text.replace(text.find("\"loss\":3"), 8, "\"loss\":null"); };
  CHECK(contains(compared(folder, {null(not_a_number), null(negative)}),
                 "**b.** Its losses equal those of a, bit by bit (losses that are not finite count as equal)"));

  const auto opposed = [](double loss) { return [loss](int step) { return step % 2 == 0 ? loss : -loss; }; };
  CHECK(contains(compared(folder, {run_text(20, opposed(0.5)), run_text(20, opposed(0.25))}),
                 "of these steps the two losses are the same on average."));

  std::string other = run_text(20, opposed(0.25));
  for (std::size_t at = 0; (at = other.find("\"tokens\":2048", at)) != std::string::npos; ++at) other[at + 9] = '4';
  CHECK(contains(compared(folder, {run_text(20, opposed(0.5)), other}),
                 "Their steps have different numbers of tokens, so they have not seen the same data."));

  const std::string later = start_line(1) + step_line(30, 3, 100);
  CHECK(contains(compared(folder, {run_text(5, opposed(0)), later, start_line(1) + step_line(30, 4, 100)}),
                 "**c.** Its losses first differ from those of b at step 30"));
}

TEST_CASE("report: charts keep a run's colour on every axis, and say nothing beyond its end", "[report]") {
  const TempFolder folder;
  const auto flat = [](int) { return 0.0; };
  std::string gap = run_text(40, flat);  // the time of one step is missing
  gap.replace(gap.find("\"step_ms\":100"), 13, "\"step_ms\":null");
  std::string untimed = run_text(10, flat);
  for (std::size_t at = 0; (at = untimed.find("\"tokens\":2048", at)) != std::string::npos;) {
    untimed.replace(at, 13, "\"tokens\":null");
  }
  compared(folder, {untimed, gap});
  const std::string page = read_text(folder.path() / "out.html");
  const std::string chart = page.substr(page.find("<figcaption>Training loss"));
  CHECK(contains(chart, "<li><i class=\"k0\"></i>a</li><li><i class=\"k1\"></i>b</li>"));
  // Step 20 is beyond a's end, so it has only b's value, the second one.
  CHECK(contains(chart, ";20||3;"));
  CHECK(contains(chart, ";10|3|3;"));
  // With the time of a step missing the others still add up: 39 of 100 ms.
  CHECK(contains(chart, ";3.9|"));
}

TEST_CASE("report: runs whose steps overlap in speed are as fast within noise", "[report]") {
  const TempFolder folder;
  std::string one = start_line(1), other = start_line(1), slow = start_line(1);
  for (int step = 1; step <= 20; ++step) {
    one += step_line(step, 3, 100 + step % 5);
    other += step_line(step, 3, 101 + step % 5);
    slow += step_line(step, 3, 200 + step % 5);
  }
  const std::string text = compared(folder, {one, other, slow});
  CHECK(contains(text, "Within noise (the middle halves of the steps overlap) as fast: b."));
}

TEST_CASE("report: runs whose tokens are other work are not compared, though their shape is the same", "[report]") {
  // The start event's numbers, and keys of [model] beside the shape.
  const auto groups = [](const std::string& start, const std::string& keys, const std::string& other_start,
                         const std::string& other_keys) {
    const TempFolder folder;
    const auto write = [&](const char* name, const std::string& more, const std::string& more_keys) {
      write_text(folder.path() / name / "metrics.jsonl", start_line(1, 0, more) + step_line(1, 3, 100));
      write_text(folder.path() / name / "config.toml",
                 "[model]\npreset = \"gpt-tiny\"\nfamily = \"gpt2\"\nlayers = 1\n" + more_keys + "[train]\nseq = 16\n");
    };
    write("a", start, keys), write("b", other_start, other_keys);
    lt::report::write_report({(folder.path() / "a").string(), (folder.path() / "b").string()},
                             (folder.path() / "out.html").string());
    return read_text(folder.path() / "out.md");
  };
  const std::string start = R"(,"flops_per_token":1000,"parameters":2000)",
                    more_flops = R"(,"flops_per_token":1500,"parameters":2000)",
                    more_parameters = R"(,"flops_per_token":1000,"parameters":2500)";
  const std::string two = "a token is 2 different kinds of work";
  CHECK_FALSE(contains(groups(start, "head_dim = 0\n", start, "head_dim = 32\n"), two));  // the default, written out
  CHECK_FALSE(contains(groups(start, "", start, "freeze = []\ndropout = 0.0\n"), two));  // of a version without the key
  CHECK_FALSE(contains(groups(start, "dropout = 0.1\n", start, "dropout = 0.2\n"), two));
  CHECK(contains(groups(start, "dropout = 0.0\n", start, "dropout = 0.1\n"), two));
  CHECK(contains(groups(start, "freeze = []\n", start, "freeze = [\"embed\"]\n"), two));
  CHECK(contains(groups(start, "", more_parameters, ""), "## gpt-tiny, sequences of 16 tokens, 2.50k parameters\n"));
  const std::string lora = groups(start, "lora = {}\n", more_flops, "lora = {rank = 8}\n");
  CHECK(contains(lora, two));
  CHECK(contains(lora, "## gpt-tiny, sequences of 16 tokens, model.lora {}\n"));
  CHECK(contains(lora, "## gpt-tiny, sequences of 16 tokens, model.lora {rank = 8}\n"));
}

TEST_CASE("report: a hybrid run is a series of its own", "[report]") {
  const TempFolder folder;
  const auto run = [](int ranks, int shard_size) {
    std::string text = start_line(ranks, 0, R"(,"strategy":"zero3","shard_size":)" + std::to_string(shard_size));
    for (int step = 1; step <= 4; ++step) text += step_line(step, 3, 100);
    return text;
  };
  const std::string text = compared(folder, {run(2, 0), run(4, 4), run(4, 2)});
  CHECK(contains(text, "| a | zero3 | 2 |"));
  CHECK(contains(text, "| b | zero3 | 4 |"));
  CHECK(contains(text, "| c | zero3, shards over 2 | 4 |"));
  CHECK(contains(read_text(folder.path() / "out.html"), "<i class=\"k1\"></i>zero3, shards over 2</li>"));
}

TEST_CASE("report: curves of several runs over steps and time, and over tokens if they differ; long ones smoothed",
          "[report]") {
  const TempFolder folder;
  std::string one = start_line(1), other = start_line(1), more = start_line(1);
  for (int step = 1; step <= 300; ++step) {
    const std::string line = step_line(step, step % 2 == 0 ? 3 : 4, 100);
    one += line, other += line;
    more += std::string(line).replace(line.find("2048"), 4, "4096");
  }
  one += "{\"event\":\"eval\",\"step\":300,\"loss\":3.25}\n",
      other += "{\"event\":\"eval\",\"step\":300,\"loss\":3.5}\n";
  compared(folder, {one, other});
  const std::string html = read_text(folder.path() / "out.html");
  for (const char* title : {"Training loss", "Evaluation loss", "Gradient norm", "Learning rate"})
    CHECK(contains(html, "<figcaption>" + std::string(title) + "</figcaption>"));
  CHECK(contains(html, "/> seconds in steps</label>"));
  CHECK_FALSE(contains(html, "/> tokens</label>"));  // 2048 a step in both runs
  CHECK(contains(html, "Line: the mean of 3 steps around each. Pale: every step."));
  compared(folder, {one, more});
  CHECK(contains(read_text(folder.path() / "out.html"), "/> tokens</label>"));
}
