// write_report(): the numbers of a synthetic run appear, the page is well formed, and it has no external references.
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::write_text;
namespace fs = std::filesystem;

// Ten steps of 100 ms. Step 5 occurs twice, as after a restart, and its later line counts.
std::string metrics(int ranks = 2) {
  std::string text = start_line(ranks);
  for (int step = 1; step <= 5; ++step) text += step_line(step, step == 5 ? 9.75 : 5.5 - 0.25 * step, 100);
  text += R"({"event":"restart","step":4,"reason":"rank <1> lost"})"
          "\n";
  for (int step = 5; step <= 10; ++step) text += step_line(step, 5.5 - 0.25 * step, 100);
  return text + R"({"event":"eval","step":10,"loss":3.125,"batches":2})"
                "\n";
}

// Checks that every tag is closed in the order of opening. Returns the first that is not.
std::string unbalanced_tag(std::string html) {
  static const std::set<std::string> kVoid = {"meta", "!DOCTYPE"};
  for (const std::string element : {"style", "script"}) {  // raw text
    const auto begin = html.find("<" + element + ">"), end = html.find("</" + element + ">");
    html.erase(begin, end - begin + element.size() + 3);
  }
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t close = html.find('>', at);
    if (close == std::string::npos || html.find('<', at + 1) < close) return html.substr(at, 40);
    const std::string tag = html.substr(at + 1, close - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.back() == '/' || kVoid.count(name) > 0) continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != tag) {
      return tag;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

void check_page(const std::string& html) {
  CHECK(unbalanced_tag(html) == "");
  std::string rest = html;
  const std::string svg = "http://www.w3.org/2000/svg";
  for (std::size_t at; (at = rest.find(svg)) != std::string::npos;) rest.erase(at, svg.size());
  for (std::size_t at = 0; (at = rest.find("href=\"#", at)) != std::string::npos;) {  // an anchor of this page
    const std::string name = rest.substr(at + 7, rest.find('"', at + 7) - at - 7);
    CHECK(contains(html, " id=\"" + name + "\""));
    rest.erase(at, 7);
  }
  for (const char* reference : {"http:", "https:", "src=", "href=", "@import", "url("})
    CHECK_FALSE(contains(rest, reference));
  CHECK_FALSE(contains(html, "nan"));
  CHECK_FALSE(contains(html, "inf\""));
}

// Number of data rows of the Markdown table whose header starts with `header`.
int rows_of(const std::string& markdown, const std::string& header) {
  std::istringstream lines(markdown.substr(markdown.find(header)));
  int rows = -2;
  for (std::string line; std::getline(lines, line) && line.starts_with("|");) ++rows;
  return rows;
}

}  // namespace

TEST_CASE("report: the numbers of one run", "[report]") {
  const TempFolder folder;
  const fs::path run = folder.path() / "tiny";
  write_text(run / "metrics.jsonl", metrics());
  write_text(run / "config.toml", "[model]\npreset = \"gpt-tiny\"\n\n[parallel]\nstrategy = \"zero3\"\n");
  write_text(run / "env.json", R"({"host":"a&b","libraries":{"mpi":"4.1"}})");
  write_text(run / "samples" / "step-00000010.txt", "to be </pre><script>or not</script>\xff");
  write_text(run / "samples" / "step-00000011.txt", "superseded");  // by a start that has not come so far
  write_text(run / "samples" / "step-00000010.txt.tmp-0f", "superseded");
  lt::report::write_report({run.string() + "/"}, (folder.path() / "report.html").string());
  const std::string html = read_text(folder.path() / "report.html"), markdown = read_text(folder.path() / "report.md");
  check_page(html);
  CHECK_FALSE(contains(html, "superseded"));
  for (const char* text :
       {"| Model | gpt-tiny |",
        "| Strategy | zero3 |",
        "| Ranks | 2 |",
        "| Steps | 10 |",
        "| Tokens | 20.5k |",
        "| Step, median | 100.0 ms |",
        "| Tokens per second, median | 20.5k |",
        "| Evaluation loss, best | 3.1250 nats at step 10 |",
        "| Peak memory of tensors, predicted | 6.00 MiB |",
        "| forward | 25.00 | 25.0% |",
        "| backward | 75.00 | 75.0% |",
        "| all | 100.00 |",
        "| all gather | 2 | 732 KiB | 1.50 | 0.25 | 0.50 |",
        "| activations | 5.00 MiB | 83.3% |",
        "A step takes 100.0 ms on average, bound by computation (100%): forward 25.0 ms (25%), backward 75.0 ms (75%).",
        "| step | 80.00 | 90.00 | 100.00 |  |",
        "| own time | 60.00 | 70.00 | 80.00 | 1 |",
        "| forward | 20.00 | 25.00 | 30.00 | 1 |",
        "| backward | 70.00 | 75.00 | 80.00 | 0 |",
        "| rank 1 | 80.00 | 9 | 100.0% |",
        "| rank 0 | 60.00 | 0 | 0.0% |",
        "Rank 1 is slower than the others: over all these steps the mean own time of a rank is 60.00 to 80.00 ms, and "
        "that of this rank is 10.00 ms (11.1% of a step) above the mean of the ranks.",
        "| 10 | 3.1250 | 22.76 | 2 | – |",
        "| eval | 10 | loss 3.125, batches 2 |",
        "| zero1, zero2, zero3 | ",
        "| libraries.mpi | 4.1 |",
        "| restart | 4 | reason rank &lt;1> lost |"}) {
    INFO(text);
    CHECK(contains(markdown, text));
  }
  CHECK(rows_of(markdown, "| step | loss |") == 10);  // step 5 once,
  CHECK(contains(markdown, "| 5 | 4.2500 |"));        // with the loss of its later line
  CHECK_FALSE(contains(markdown, "9.75"));
  CHECK(contains(html, "to be &lt;/pre&gt;&lt;script&gt;or not&lt;/script&gt;\xEF\xBF\xBD"));
  CHECK(contains(html, "data-names=\"step&#10;training&#10;evaluation\""));
  CHECK(contains(html, ";5|4.25|"));  // under the pointer
  CHECK(contains(html, "a&amp;b"));
  CHECK_FALSE(contains(markdown, "| MFU | –"));  // null in every step
}

TEST_CASE("report: several runs are compared", "[report]") {
  const TempFolder folder;
  for (int ranks : {1, 2, 4}) {
    std::string text = start_line(ranks);
    for (int step = 1; step <= 4; ++step) text += step_line(step, 4, 400.0 / (ranks == 4 ? 3 : ranks));
    write_text(folder.path() / std::to_string(ranks) / "run" / "metrics.jsonl", text);
    write_text(folder.path() / std::to_string(ranks) / "run" / "config.toml",
               "[parallel]\nstrategy = \"ddp\"\n[train]\nmicro_batch = " + std::to_string(8 / ranks) + "\n");
  }
  const auto run = [&](const char* name) { return (folder.path() / name / "run").string(); };
  lt::report::write_report({run("1"), run("2"), run("4")}, (folder.path() / "out.html").string());
  const std::string html = read_text(folder.path() / "out.html"), markdown = read_text(folder.path() / "out.md");
  check_page(html);
  CHECK(contains(markdown, "Chart: Scaling"));
  CHECK(contains(markdown, "| " + run("4") + " | ddp | 4 | 15.4k |"));  // folders of one name keep their path
  CHECK(contains(markdown, "| " + run("1") + " | single | 1 | 5.12k | 2.56k | 100% | 400.0 |"));
  CHECK(contains(markdown, "Fastest is " + run("4") +
                               " (ddp on 4 ranks) with 15.4k tokens per second, 3.00 times as many as " + run("1") +
                               " (single on 1 rank)"));
  CHECK(contains(markdown, "All process the same number of tokens per step, so with more ranks each has fewer"));
  CHECK(contains(markdown, "| 100% | 200.0 |"));
  CHECK(contains(markdown, "| 75% | 133.3 |"));
  CHECK(contains(markdown, "| efficiency | step ms | peak memory | exposed |"));  // no run has an MFU
  CHECK(contains(markdown, "| train.micro_batch | 8 | 4 | 2 |"));
  CHECK_FALSE(contains(markdown, "| parallel.strategy |"));  // the same in all
}

TEST_CASE("report: a model is named by its shape, and by a preset where it has that one's", "[report]") {
  const auto model = [](const std::string& keys) {
    const TempFolder folder;
    write_text(folder.path() / "metrics.jsonl", start_line(1) + step_line(1, 5, 100));
    write_text(folder.path() / "config.toml", "[model]\n" + keys);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    const std::string markdown = read_text(folder.path() / "report.md"), row = "| Model | ";
    const auto begin = markdown.find(row);
    return begin == std::string::npos
               ? ""
               : markdown.substr(begin + row.size(), markdown.find(" |\n", begin) - begin - row.size());
  };
  const auto tiny = [](int layers, int vocab) {
    return "preset = \"gpt-tiny\"\nfamily = \"gpt2\"\nheads = 4\nkv_heads = 4\nwidth = 128\nffn = 512\nmax_seq = 256\n"
           "tie_embeddings = \"true\"\nlayers = " +
           std::to_string(layers) + "\nvocab = " + std::to_string(vocab) + "\n";
  };
  CHECK(model(tiny(4, 256)) == "gpt-tiny: gpt2, 4 layers x width 128");
  CHECK(model(tiny(2, 256)) == "gpt2, 2 layers x width 128");
  CHECK(model(tiny(4, 300)) == "gpt2, 4 layers x width 128");
  CHECK(model("preset = \"gpt-tiny\"\n") == "gpt-tiny");  // a configuration that was not resolved
  CHECK(model("family = \"llama\"\nlayers = 1e300\n") == "llama");
  CHECK(model("") == "");
}

TEST_CASE("report: runs of different models are not held against each other", "[report]") {
  const TempFolder folder;
  for (const std::string name : {"small", "large", "larger"}) {
    std::string text = start_line(name == "larger" ? 2 : 1);
    for (int step = 1; step <= 4; ++step) text += step_line(step, 4, name == "small" ? 50 : 200);
    write_text(folder.path() / name / "metrics.jsonl", text);
    write_text(folder.path() / name / "config.toml", name == "small"
                                                         ? "[model]\npreset = \"gpt-tiny\"\n[train]\nseq = 128\n"
                                                         : "[model]\npreset = \"gpt-tiny\"\n[train]\nseq = 256\n");
  }
  lt::report::write_report(
      {(folder.path() / "small").string(), (folder.path() / "large").string(), (folder.path() / "larger").string()},
      (folder.path() / "out.html").string());
  const std::string markdown = read_text(folder.path() / "out.md");
  CHECK(contains(markdown, "a token is 2 different kinds of work"));
  CHECK(contains(markdown, "## gpt-tiny, sequences of 128 tokens"));
  CHECK(contains(markdown, "## gpt-tiny, sequences of 256 tokens"));
  CHECK(contains(markdown, "| small | single | 1 | 41.0k | 20.5k | – | 50.0 |"));
  CHECK(contains(markdown, "| large | single | 1 | 10.2k | 5.12k | 100% | 200.0 |"));
  CHECK(contains(markdown, "| larger | – | 2 | 10.2k | 5.12k | 50% | 200.0 |"));
  check_page(read_text(folder.path() / "out.html"));
}

TEST_CASE("report: torn, damaged and missing metrics", "[report]") {
  const TempFolder folder;
  const std::string out = (folder.path() / "report.html").string();
  const fs::path file = folder.path() / "metrics.jsonl";
  const auto error = [&] {
    try {
      lt::report::write_report({folder.path().string()}, out);
    } catch (const lt::DataError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(error() == file.string() + ": no such file");

  const std::string whole = step_line(11, 3, 100);
  for (const std::string& torn : {std::string(R"({"step":11,"loss":1.)"), whole.substr(0, whole.size() - 1)}) {
    write_text(file, metrics() + torn);  // without its newline even a whole row does not count
    CHECK(error() == "no error");
    CHECK(contains(read_text(folder.path() / "report.md"), "| Steps | 10 |"));
    CHECK(contains(read_text(folder.path() / "report.md"), "is incomplete"));
  }

  write_text(file, start_line(1) + "{\"step\":1,\"lo\n");  // the last line, with its newline
  CHECK(error() == file.string() + ": line 2: expected a JSON object, got {\"step\":1,\"lo");
  write_text(file, start_line(1) + "{\"step\":1,\"lo\n" + step_line(2, 5, 100));
  CHECK(error() == file.string() + ": line 2: expected a JSON object, got {\"step\":1,\"lo");
  write_text(file, start_line(1) + "{\"step\":1,\"loss\":\"low\"}\n");
  CHECK(error() == file.string() + ": line 2: loss: expected a number, got \"low\"");
  write_text(file, start_line(1) + "{\"step\":1,\"loss\":" + std::string(300000, '[') + std::string(300000, ']') +
                       "}\n" + step_line(2, 5, 100));
  CHECK(contains(error(), ": line 2: expected a JSON object, got {\"step\":1,\"loss\":[["));
  write_text(file, "{\"loss\":1}\n");
  CHECK(error() == file.string() + ": line 1: step: expected a number in a line that is no event");

  write_text(file, start_line(1) + "{\"step\":1,\"loss\":null,\"breakdown_ms\":null}\n");  // a loss that was not finite
  CHECK(error() == "no error");
  check_page(read_text(out));
  write_text(file, "");
  CHECK(error() == "no error");
  CHECK(contains(read_text(folder.path() / "report.md"), "No step has been recorded yet."));
  check_page(read_text(out));

  CHECK_THROWS_AS(lt::report::write_report({folder.path().string()}, (folder.path() / "no" / "where.html").string()),
                  lt::DataError);
  CHECK_THROWS_AS(lt::report::write_report({}, out), lt::UsageError);
  CHECK_THROWS_AS(lt::report::write_report({folder.path().string()}, (folder.path() / "report.md").string()),
                  lt::UsageError);
  CHECK_THROWS_AS(lt::report::write_report({folder.path().string(), folder.path().string() + "/metrics.jsonl"}, out),
                  lt::UsageError);
}

TEST_CASE("report: files beside the metrics may be damaged", "[report]") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder.path() / "log.txt").c_str(), 0600) == 0);  // nobody writes to it
  write_text(folder.path() / "metrics.jsonl", metrics());
  for (const char* name : {"config.toml", "env.json", "arena.svg"}) {
    write_text(folder.path() / name, "{ nothing");
    if (std::string(name) == "env.json") {  // no file at all
      fs::remove(folder.path() / name);
      fs::create_directory(folder.path() / name);
    }
    lt::report::write_report({(folder.path() / "metrics.jsonl").string()}, (folder.path() / "report.html").string());
    INFO(name);
    CHECK(contains(read_text(folder.path() / "report.md"),
                   std::string(name) + " of the run cannot be read or is damaged, and was ignored."));
  }
}

TEST_CASE("report: a run whose speed changed has its mean speed too, and one that failed its error", "[report]") {
  const TempFolder folder;
  std::string text = start_line(1);
  for (int step = 1; step <= 30; ++step) text += step_line(step, 3, step <= 20 ? 100 : 400);
  write_text(folder.path() / "metrics.jsonl", text);
  const auto page = [&](const std::string& log) {
    write_text(folder.path() / "log.txt", log);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    return read_text(folder.path() / "report.md");
  };
  const std::string error = "error: [watchdog] rank 1: the process is gone";
  const std::string failed = page("step     1/30 | loss 3\n" + error + "\nhint: none\n");
  CHECK(contains(failed, "| 20.5k (median, 100.0 ms per step; mean 9.70k) |"));
  CHECK(contains(failed, "| Tokens per second, mean | 9.70k |"));
  CHECK(contains(failed, "Its log ends with: " + error + "\n"));
  CHECK_FALSE(contains(page(error + "\nstep     1/30 | loss 3\n"), error));  // it went on
}

TEST_CASE("report: short steps keep their digits, and the page explains the words that it uses", "[report]") {
  const TempFolder folder;
  const std::string zero3 = start_line(2, 0, R"(,"strategy":"zero3")");
  write_text(folder.path() / "metrics.jsonl",
             zero3 + step_line(1, 3, 0.04) + step_line(2, 3, 0.04) + step_line(3, 3, 0.04));
  lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
  const std::string text = read_text(folder.path() / "report.md");
  for (const char* part : {"| Step, median | 0.040 ms |", "| 3 | 3.0000 | 0.500 | 1.00e-03 | 0.040 |",
                           "| forward | 0.010 | 25.0% |", "No rank is slow throughout",
                           "| unit | parameters that are gathered", "| communication, slack | owners of memory"}) {
    INFO(part);
    CHECK(contains(text, part));
  }
  for (const char* absent : {"| efficiency |", "| MFU |", "| ledger |"}) CHECK_FALSE(contains(text, absent));
}

TEST_CASE("report: the loss of a program's own model has no unit", "[report]") {
  const TempFolder folder;
  write_text(folder.path() / "metrics.jsonl", start_line(1, 0, R"(,"model":"adder 2 mixtures")") +
                                                  step_line(1, 3, 100) +
                                                  "{\"event\":\"eval\",\"step\":1,\"loss\":3}\n");
  const auto text = [&](const char* config) {
    write_text(folder.path() / "config.toml", config);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    return read_text(folder.path() / "report.md");
  };
  for (const char* config : {"[model]\nfamily = \"adder\"\n", "[model]\nfrom = \"\"\n"}) {  // lt::cli, lt::Trainer
    CHECK(contains(text(config), "| Training loss at the first step | 3.0000 |"));
    CHECK_FALSE(contains(text(config), "perplexity"));
    CHECK_FALSE(contains(text(config), "nats"));
  }
  CHECK(contains(text("[model]\npreset = \"gpt-tiny\"\n"), "3.0000 nats |"));
}

TEST_CASE("report: two runs of 2,000 steps stay below 400 kB, with a link to every section", "[report]") {
  const TempFolder folder;
  std::vector<std::string> runs;
  for (const std::string name : {"a", "b"}) {
    std::string text = start_line(2);
    for (int step = 1; step <= 2000; ++step) {  // values with many digits and scatter, as in a real run
      const double scatter = std::sin(step * 12.9898 + (name == "a" ? 0 : 1));
      text += step_line(step, 2 + 3 * std::exp(-step / 300.0) + 0.1 * scatter, 100 + 7 * scatter);
      if (step % 100 == 0)
        text += R"({"event":"eval","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(3 - step / 2e3) +
                "}\n";
    }
    write_text(folder.path() / name / "metrics.jsonl", text);
    runs.push_back((folder.path() / name).string());
  }
  lt::report::write_report(runs, (folder.path() / "out.html").string());
  const std::string html = read_text(folder.path() / "out.html");
  check_page(html);
  CHECK(html.size() < 400000);
  CHECK(contains(html, "<a href=\"#losses\">Losses</a>"));
  CHECK(contains(html, "<a href=\"#training-2\">Training</a>"));
}

TEST_CASE("report: a long run stays small", "[report]") {
  const TempFolder folder;
  std::string text = start_line(2);
  for (int step = 1; step <= 20000; ++step)
    text += step_line(step, 2 + 3 * std::exp(-step / 3000.0), step % 1000 == 0 ? 900 : 100);
  write_text(folder.path() / "metrics.jsonl", text);
  lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
  const std::string html = read_text(folder.path() / "report.html");
  check_page(html);
  CHECK(html.size() < 300000);
}
