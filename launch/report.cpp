// `ltrain report RUN...`: writes one offline HTML file and its Markdown version.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include "io/print_note.h"
#include "launch/command.h"
#include "launch/output_file.h"
#include "report/report.h"

namespace lt::launch {

namespace {

volatile std::sig_atomic_t stopped = 0;

// A second signal ends the process at once.
void stop(int signal) {
  stopped = 1;
  std::signal(signal, SIG_DFL);
}

// Returns false as soon as a signal asks to stop.
bool wait_unless_stopped(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (stopped == 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return stopped == 0;
}

}  // namespace

CommandBody set_up_report(CLI::App& app, const Models&) {
  struct Options {
    std::vector<std::string> runs;
    std::string out;
    bool follow = false;
  };
  const auto o = std::make_shared<Options>();
  app.add_option("RUN", o->runs, "run folders; several are compared in one report")
      ->required()
      ->option_text("(required)");
  app.add_option("--out", o->out,
                 "HTML file to write, with a .md file next to it; default: report.html in the run folder, or "
                 "comparison.html in the current folder for several runs")
      ->option_text("FILE");
  app.add_flag("--follow", o->follow,
               "update the report until every run has ended, Ctrl-C is pressed or the terminal closes; an open page "
               "refreshes itself");
  return [o](const Invocation&) {
    io::outlive_readers();
    // A comparison belongs to no single run, so it must not replace a run's own report.
    const bool one = o->runs.size() == 1;
    const std::string by_default = one ? report::run_folder(o->runs.front()) + "/report.html" : "comparison.html";
    if (!o->out.empty()) require_output("--out", o->out);
    const std::string out = o->out.empty() ? by_default : o->out;
    auto print_path = [&, printed = false]() mutable {
      if (std::exchange(printed, true)) return;
      io::print_done("{}\n", out);
    };
    if (o->follow) {
      // From the moment that the path is printed there is a page, and a signal ends the command with a whole one.
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        if (std::signal(signal, stop) == SIG_IGN) std::signal(signal, SIG_IGN);  // as nohup asks
      }
      report::follow_report(o->runs, out, [&](double seconds) {
        print_path();
        return wait_unless_stopped(seconds);
      });
    } else {
      report::write_report(o->runs, out);
    }
    print_path();
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
