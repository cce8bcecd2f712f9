// `ltrain launch`: starts the ranks of a training run, watches them, and restarts them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "launch/command.h"
#include "launch/command_line.h"
#include "launch/numbers.h"
#include "launch/supervisor/supervisor.h"
#include "libtrain/config/config.h"

namespace lt::launch {
namespace {

struct Options {
  LaunchOptions launch;
  std::string with = "auto";
};

// The ranks that the supervisor starts have variables of their own, which win over those that it inherited. So it may
// run in a shell of srun, whose rank is 0. A later rank is one of several supervisors, and below mpirun no other mpirun
// starts.
void require_alone(const std::string& program) {
  LaunchInfo place;
  try {
    place = discover_ranks();
  } catch (const CommError&) {  // leftover variables that make no sense
  }
  if (place.rank == 0 && place.source != "Open MPI") return;
  throw UsageError(
      "usage",
      fmt::format("{} launch: expected to be started by itself, found rank {} of {}", program, place.rank,
                  place.source),
      fmt::format("leave mpirun, srun and torchrun out, or unset their variables: {} launch -n N starts the "
                  "ranks",
                  program));
}

// Parses the arguments after `--` as `train` would, so that errors that need no ranks to detect are reported first.
Parsed parse_train(const std::vector<std::string>& arguments, const Models& models) {
  const std::string hint = models->program + " launch -n N -- train --config FILE.toml";
  if (arguments.empty()) throw UsageError("usage", "expected a command after --, got none", hint);
  if (arguments[0] != "train") {
    throw UsageError("usage", fmt::format("expected train after --, got {}", arguments[0]), hint);
  }
  return parse_command_line(arguments, models);
}

Config config_of(const Parsed& train, const Models& models) {
  const std::string file = train.app->get_subcommand("train")->get_option("--config")->as<std::string>();
  return load_config(file, train.config, models);
}

ExitCode run_launch(Options& options, const Invocation& invocation, const Models& models) {
  LaunchOptions& launch = options.launch;
  const Parsed train = parse_train(launch.arguments, models);
  const bool prints = !train.text.empty() || train.app->get_subcommand("train")->count("--print-config") > 0;
  if (prints) {
    std::fputs(train.text.c_str(), stdout);
    return train.text.empty() ? train.run({invocation.world, train.config, train.command_line}) : ExitCode::ok;
  }
  if (launch.min_ranks > launch.ranks) {
    throw UsageError("usage",
                     fmt::format("--min-ranks: expected at most -n {}, got {}", launch.ranks, launch.min_ranks));
  }
  if (launch.min_ranks > 0 && launch.hostfile.empty()) {
    throw UsageError(
        "usage",
        "--min-ranks: expected --hostfile with it, since only hosts that it lists can be left out; found none");
  }
  launch.launcher = choose_launcher(options.with, launch.ranks);
  if (!launch.hostfile.empty() && launch.launcher != Launcher::mpirun) {
    throw UsageError("usage",
                     fmt::format("--hostfile: expected mpirun, which reads it, found {}",
                                 kLauncherNames[static_cast<int>(launch.launcher)]),
                     "--with mpirun");
  }
  if (launch.launcher == Launcher::mpirun && std::ranges::find(launch.arguments, ":") != launch.arguments.end()) {
    throw UsageError("usage", "expected no argument that is a colon alone, which mpirun takes for itself",
                     "write key and value as one argument: --section.key=:");
  }
  return supervise(launch, config_of(train, models));
}

}  // namespace

CommandBody set_up_launch(CLI::App& app, const Models& models) {
  auto options = std::make_shared<Options>();
  LaunchOptions& launch = options->launch;
  app.add_option("-n,--ranks", launch.ranks, "number of ranks")
      ->required()
      ->check(integer_from(1))
      ->option_text("N (required)");
  app.add_option("--restarts", launch.restarts, "maximum number of restarts; 0 disables restarts")
      ->check(integer_from(0))
      ->option_text("K = 3");
  app.add_option("--min-ranks", launch.min_ranks,
                 "fewest ranks to restart with if hosts of --hostfile are gone; default: N")
      ->check(integer_from(1))
      ->option_text("M");
  app.add_option("--hostfile", launch.hostfile, "hostfile for mpirun, with a line \"HOST slots=N\" per host")
      ->option_text("FILE");
  app.add_option("--with", options->with,
                 "launcher; auto: processes for one rank; for more, srun in a Slurm job, else mpirun if installed, "
                 "else processes")
      ->check(CLI::IsMember({"auto", "mpirun", "srun", "processes"}))
      ->option_text("auto|mpirun|srun|processes = auto");
  app.add_option("--grace", launch.grace_s, "time limit in seconds for ranks to save after a stop signal; 0: no limit")
      ->check(number_between(0, 86400))
      ->option_text("S = 120");
  app.add_option("--backoff", launch.backoff_s,
                 "seconds to wait after an attempt that saved nothing new, twice that after two in a row, at most 60; "
                 "no wait after the first attempt")
      ->check(number_between(0, 86400))
      ->option_text("S = 1");
  app.add_option("COMMAND", launch.arguments, "train and its options, after --")->option_text("-- train ...");
  return [options, models](const Invocation& invocation) {
    require_alone(models->program);
    return run_launch(*options, invocation, models);
  };
}

}  // namespace lt::launch
