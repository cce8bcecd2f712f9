// `ltrain plan`: memory, FLOPs and communication of a run, without running it.
#include "libtrain/planner.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "config_options.h"
#include "numbers.h"

namespace lt::launch {

Run set_up_plan(CLI::App& app) {
  struct Options {
    int ranks = 0;  // 0: those of this run
    bool json = false;
  };
  const auto plan = std::make_shared<Options>();
  const ConfigOptions options(app);
  app.add_option("--ranks", plan->ranks, "ranks to plan for; 1 where it runs alone")
      ->check(integer_from(1))
      ->option_text("N");
  app.add_flag("--json", plan->json, "one JSON object");
  return [options, plan](const Invocation& invocation) {
    const auto config = options.load(invocation);
    if (!config || invocation.world.rank() != 0) return ExitCode::ok;
    const Plan result = make_plan(*config, plan->ranks > 0 ? plan->ranks : invocation.world.size());
    std::puts((plan->json ? to_json(result) : to_text(result)).c_str());
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
