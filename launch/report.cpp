// `ltrain report RUN...`: writes one offline HTML file and its Markdown version.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"
#include "output_file.h"
#include "report/report.h"

namespace lt::launch {

Run set_up_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string out;
  };
  const auto o = std::make_shared<Options>();
  app.add_option("RUN", o->runs, "run folders; several are compared")->required();
  app.add_option("--out", o->out,
                 "the HTML file; default: report.html in the run's folder, or for several runs comparison.html in "
                 "the current folder")
      ->option_text("FILE");
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    // A comparison belongs to no single run, so it must not replace a run's own report.
    const bool one = o->runs.size() == 1;
    const std::string by_default = one ? run_folder(o->runs.front()) + "/report.html" : "comparison.html";
    if (!o->out.empty()) require_output("--out", o->out);
    const std::string out = o->out.empty() ? by_default : o->out;
    write_report(o->runs, out);
    fmt::print("{}\n", out);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
