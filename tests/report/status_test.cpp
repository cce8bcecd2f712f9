// How a report describes a run's end: if the run is complete, which updates were skipped, and how to continue the run.
#include <string>

#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains, fixture::TempFolder, fixture::read_text, fixture::start_line, fixture::step_line,
    fixture::write_text;

// The last event of a run that ends with code 5.
const std::string kLastSkip = R"({"event":"skip","step":4,"reason":"non-finite loss or gradient"})"
                              "\n";

}  // namespace

TEST_CASE("report: whether a run came to its end, and which updates were left out", "[report]") {
  const TempFolder folder;
  write_text(folder.path() / "config.toml", "[train]\nsteps = 10\n");
  const auto status = [&](const std::string& end) {
    std::string text = start_line(1);
    for (int step = 1; step <= 4; ++step) text += step_line(step, 4, 100);
    write_text(folder.path() / "metrics.jsonl", text + end);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    return read_text(folder.path() / "report.md");
  };
  CHECK(contains(status(""), "1 rank · 4 of 10 steps · running\n"));
  CHECK(contains(status(""), "The record has no end event: the run is still running, was killed, or failed."));
  CHECK(contains(status("{\"event\":\"end\",\"step\":4,\"reason\":\"max_minutes\",\"seconds\":1}\n"),
                 "4 of 10 steps · stopped at the limit of train.max_minutes\n"));
  CHECK(contains(status("{\"event\":\"end\",\"step\":4,\"reason\":\"program\",\"seconds\":1}\n"),
                 "4 of 10 steps · stopped by the program\n"));
  CHECK(contains(status("{\"event\":\"end\",\"step\":4,\"reason\":\"signal SIGUSR1\",\"seconds\":1}\n"),
                 "4 of 10 steps · stopped by SIGUSR1\n\nNo checkpoint of it is recorded.\n"));
  const std::string stopped = "{\"event\":\"end\",\"step\":4,\"reason\":\"signal SIGUSR1\",\"seconds\":1}\n";
  CHECK(contains(status("{\"event\":\"checkpoint\",\"step\":4,\"path\":\"c\",\"seconds\":1}\n" + stopped),
                 "4 of 10 steps · stopped by SIGUSR1\n\nIts state was saved.\n"));
  CHECK(contains(status("{\"event\":\"checkpoint\",\"step\":2,\"path\":\"c\",\"seconds\":1}\n" + stopped),
                 "stopped by SIGUSR1\n\nIts last recorded checkpoint is that of step 2.\n"));
  CHECK(contains(status("{\"event\":\"skip\",\"step\":3,\"reason\":\"non-finite loss or gradient\"}\n"),
                 "Loss or gradient was not finite in 1 step, so the update was skipped: 3."));
  CHECK(contains(status(R"({"event":"skip","step":3,"reason":"no target counts","loss_scale":1})"
                        "\n"),
                 "No target counted in 1 step, so the update was skipped: 3."));
  const auto allowed = [](int step, const std::string& reason) {
    return R"({"event":"skip","step":)" + std::to_string(step) + R"(,"reason":")" + reason + R"(","loss_scale":1})" +
           "\n";
  };
  CHECK(contains(status(allowed(2, "loss not finite") + allowed(3, "loss not finite")),
                 "The loss was not finite in 2 steps, so the update was skipped: 2, 3."));
  CHECK(contains(status(allowed(2, "gradient norm not finite")),
                 "The gradient norm was not finite in 1 step, so the update was skipped: 2."));
  CHECK(contains(status(allowed(2, "gradient norm not finite") + allowed(3, "loss not finite")),
                 "Loss or gradient was not finite in 2 steps, so the update was skipped: 2, 3."));
  CHECK(contains(status(kLastSkip), "4 of 10 steps · stopped: loss or gradient not finite\n\n| Loss"));
  CHECK(contains(status("{\"event\":\"skip\",\"step\":4,\"reason\":\"gradients beyond f16\",\"loss_scale\":8}\n"),
                 "The record has no end event"));
  write_text(folder.path() / "config.toml", "[train]\nsteps = 10\n\n[checkpoint]\nresume = \"auto\"\n");
  write_text(folder.path() / "env.json", R"({"command": "ltrain train --config a.toml"})");
  CHECK(contains(status("{\"event\":\"checkpoint\",\"step\":2,\"path\":\"c\",\"seconds\":1}\n"),
                 "Started again as before, on 1 rank, it continues from step 2: `ltrain train --config a.toml`\n"));
  CHECK(contains(
      status("{\"event\":\"checkpoint\",\"step\":2,\"path\":\"c\"}\n"
             "{\"event\":\"skip\",\"step\":3,\"reason\":\"gradients beyond f16\",\"loss_scale\":8}\n"),
      "skipped: 3. Started again as before, on 1 rank, it continues from step 2: `ltrain train --config a.toml`\n"));
  write_text(folder.path() / "env.json",
             R"({"command": "ltrain train --config a.toml", "working_folder": "/data/me"})");
  CHECK(contains(status("{\"event\":\"checkpoint\",\"step\":2,\"path\":\"c\",\"seconds\":1}\n"),
                 "Started again as before, in /data/me, on 1 rank, it continues from step 2: `ltrain train --config "));
  write_text(folder.path() / "env.json", R"({"command": "ltrain train --config a.toml"})");
  // A run that stopped says its error and how it goes on too, and in f16 which updates were skipped before.
  write_text(folder.path() / "log.txt", "step     4/10 | loss nan\nerror: [train] step 4: loss nan\n");
  const std::string saved = "{\"event\":\"checkpoint\",\"step\":2,\"path\":\"c\"}\n";
  CHECK(contains(
      status(saved + kLastSkip),
      "4 of 10 steps · stopped: loss or gradient not finite\n\nIts log ends with: error: [train] step 4: loss "
      "nan\n\nStarted again as before, on 1 rank, it continues from step 2: `ltrain train --config a.toml`\n"));
  write_text(folder.path() / "log.txt", "error: [train] step 4: loss nan\nrun folder: runs/a\n");
  CHECK_FALSE(contains(status(saved), "Its log ends with"));  // an earlier attempt's error
  CHECK(
      contains(status("{\"event\":\"skip\",\"step\":3,\"reason\":\"loss not finite\",\"loss_scale\":2}\n" + kLastSkip),
               "stopped: loss or gradient not finite\n\nLoss or "
               "gradient was not finite in 2 steps, so the update was skipped: 3, 4.\n"));
  write_text(folder.path() / "config.toml", "[train]\nsteps = 4\n");
  const std::string whole = status("{\"event\":\"end\",\"step\":4,\"reason\":\"steps\",\"seconds\":1}\n");
  CHECK(contains(whole, " · complete\n"));
  CHECK_FALSE(contains(whole, "The record has no end"));
}

TEST_CASE("report: a run whose last rows are lost came to its end", "[report]") {
  const TempFolder folder;
  write_text(folder.path() / "config.toml", "[train]\nsteps = 30\n\n[checkpoint]\nresume = \"auto\"\n");
  write_text(folder.path() / "env.json", R"({"command": "ltrain train"})");
  const std::string rows = start_line(1) + fixture::steps(1, 10, 4);
  const std::string lost = R"({"event":"lost","step":30,"rows":20,"first_step":11})"
                           "\n";
  const auto status = [&](const std::string& end) {
    write_text(folder.path() / "metrics.jsonl", rows + end);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    return read_text(folder.path() / "report.md");
  };
  const std::string whole = status(lost + R"({"event":"end","step":30,"reason":"steps","seconds":1})"
                                          "\n");
  CHECK(contains(whole, "30 of 30 steps · complete\n"));
  CHECK(contains(whole, "| Steps whose rows are lost, left out of tokens, losses and time | 20 |"));
  CHECK_FALSE(contains(whole, "Started again"));
  CHECK(contains(status(R"({"event":"lost","step":12,"rows":2,"first_step":11})"
                        "\n"),
                 "12 of 30 steps · running\n"));
}

TEST_CASE("report: how a run goes on whose command does not say so", "[report]") {
  const TempFolder folder;
  const std::string saved = R"({"event":"checkpoint","step":2,"path":"c"})"
                            "\n";
  const auto status = [&](const std::string& resume, const std::string& command, const std::string& end) {
    write_text(folder.path() / "config.toml", "[train]\nsteps = 10\n\n[checkpoint]\nresume = \"" + resume + "\"\n");
    const std::string takes_options = command.find("tiny") == std::string::npos ? "true" : "false";
    write_text(folder.path() / "env.json",
               R"({"command": ")" + command + R"(", "command_takes_options": )" + takes_options + "}");
    write_text(folder.path() / "metrics.jsonl", start_line(2) + fixture::steps(1, 4, 4) + end);
    lt::report::write_report({folder.path().string()}, (folder.path() / "report.html").string());
    return read_text(folder.path() / "report.md");
  };
  const std::string from = "ltrain train --checkpoint.resume=/runs/a/checkpoints", never = "ltrain train --x=1";
  CHECK(contains(status("/runs/a/checkpoints", from, saved),
                 "Started again with checkpoint.resume=auto, on 2 ranks, it continues from step 2: `ltrain train "
                 "--checkpoint.resume=/runs/a/checkpoints --checkpoint.resume=auto`\n"));
  CHECK(contains(status("never", never, ""),
                 "Started again with checkpoint.resume=auto, on 2 ranks, it begins again at step 1: `ltrain train "
                 "--x=1 --checkpoint.resume=auto`\n"));
  CHECK(contains(status("auto", never, ""),
                 "Started again as before, on 2 ranks, it begins again at step 1: `ltrain train --x=1`\n"));
  CHECK_FALSE(contains(status("never", never, kLastSkip), "Started again"));  // it would stop there again
  // The options of a program with a trainer of its own are not the configuration's.
  CHECK(contains(status("never", "./tiny 3", saved),
                 "with checkpoint.resume=auto, on 2 ranks, it continues from step 2: "
                 "`./tiny 3`\n"));
  CHECK(contains(status("never", "./tiny train", saved), "from step 2: `./tiny train`\n"));
  // Markdown has the command unchanged.
  CHECK(contains(status("never", "cd 'a b' && ltrain train", saved),
                 "it continues from step 2: `cd 'a b' && ltrain train --checkpoint.resume=auto`\n"));
  CHECK(contains(read_text(folder.path() / "report.md"), "| command | cd 'a b' && ltrain train |\n"));
  CHECK(contains(read_text(folder.path() / "report.html"), "<code>cd 'a b' &amp;&amp; ltrain train --checkpoint"));
  CHECK(contains(status("auto", "./tiny '`a' &amp;", saved), "from step 2: ``./tiny '`a' &amp;``\n"));
  CHECK(contains(read_text(folder.path() / "report.md"), "| command | ./tiny '`a' &amp;amp; |\n"));
  write_text(folder.path() / "run.json", R"({"id":"b","begun_from":"/runs/a/checkpoints/step-00000010"})");
  CHECK(contains(status("/runs/a/checkpoints", from, ""),
                 "it begins again from /runs/a/checkpoints/step-00000010: `ltrain train"));
  CHECK(contains(status("auto", from, saved), "it continues from step 2"));
  write_text(folder.path() / "run.json", "[]");
  CHECK(contains(status("never", never, ""), "run.json of the run cannot be read or is damaged, and was ignored."));
}
