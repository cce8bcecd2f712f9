// `ltrain bench step`: measurements as JSON.
#include <CLI/CLI.hpp>
#include <memory>

#include "bench/step.h"
#include "command.h"
#include "config_options.h"
#include "libtrain/error.h"
#include "numbers.h"

namespace lt::launch {

Run set_up_bench(CLI::App& app) {
  struct Options {
    std::string what;
    bench::StepBenchOptions step;
  };
  const auto o = std::make_shared<Options>();
  const ConfigOptions options(app);
  app.add_option("WHAT", o->what, "step: whole training steps on synthetic tokens")
      ->required()
      ->check(CLI::IsMember({"step"}));
  app.add_option("--warmup", o->step.warmup, "steps that are not counted")
      ->check(integer_from(0))
      ->option_text("N = 10");
  app.add_option("--iterations", o->step.iterations, "steps that are")->check(integer_from(1))->option_text("N = 50");
  app.add_option("--out", o->step.out, "write the JSON here as well")->option_text("FILE");
  app.add_flag("--serve", o->step.serve, "time steps for each line \"run N\" of standard input");
  return [options, o](const Invocation& invocation) {
    const auto config = options.load(invocation);
    if (!config) return ExitCode::ok;
    if (o->step.serve) {
      bench::serve_steps(*config, invocation.world, o->step);
    } else {
      bench::bench_step(*config, invocation.world, o->step, invocation.command_line);
    }
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
