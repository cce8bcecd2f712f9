// `ltrain report RUN...`: one offline HTML file and its Markdown.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "command.h"
#include "libtrain/report.h"

namespace lt::launch {

Run set_up_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string out;
  };
  const auto o = std::make_shared<Options>();
  app.add_option("RUN", o->runs, "run folders; several are compared")->required();
  app.add_option("--out", o->out, "the HTML file; report.html in the first run's folder where it is not given")
      ->option_text("FILE");
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    const std::string out = o->out.empty() ? o->runs.front() + "/report.html" : o->out;
    write_report(o->runs, out);
    fmt::print("{}\n", out);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
