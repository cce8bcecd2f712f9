// `ltrain launch`: starts the ranks of a command, watches them, and restarts a training run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "config/derive.h"
#include "launch/command.h"
#include "launch/command_line.h"
#include "launch/numbers.h"
#include "launch/supervisor/hosts.h"
#include "launch/supervisor/supervisor.h"
#include "libtrain/comm/world.h"
#include "libtrain/config/config.h"
#include "record/short_text.h"
#include "run/resolve_run.h"

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

// The commands that run on ranks.
std::vector<std::string> launched_names(const Models& models) {
  std::vector<std::string> names;
  for (const Command& command : commands(*models)) {
    if (command.needs_ranks) names.push_back(command.name);
  }
  return names;
}

// "train, sample, eval or bench".
std::string one_of(const std::vector<std::string>& names) {
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

// Parses the arguments after `--` as the program would, so that errors that need no ranks to detect are reported first.
Parsed parse_command(const std::vector<std::string>& arguments, const Models& models) {
  const std::string hint = models->program + " launch -n N -- train --config FILE.toml";
  if (arguments.empty()) throw UsageError("usage", "expected a command after --, got none", hint);
  const std::vector<std::string> names = launched_names(models);
  if (std::ranges::find(names, arguments[0]) == names.end()) {
    throw UsageError("usage", fmt::format("expected {} after --, got {}", one_of(names), arguments[0]), hint);
  }
  Parsed parsed = parse_command_line(arguments, models);
  if (parsed.text.empty() && !parsed.needs_ranks && !prints_config(*parsed.app)) {
    throw UsageError("usage",
                     fmt::format("expected a command that runs on ranks after --, got {} {}", arguments[0],
                                 chosen_command(*parsed.app).get_name()),
                     "start it without launch");
  }
  return parsed;
}

// The ranks have no standard input.
void require_no_input(const Parsed& parsed) {
  const CLI::App& command = chosen_command(*parsed.app);
  const auto fail = [&](const char* expected, const char* found) {
    throw UsageError("usage",
                     fmt::format("{} after launch: expected {}, since ranks have no standard input, got {}",
                                 command.get_name(), expected, found),
                     "start it without launch");
  };
  if (const CLI::Option* const serve = command.get_option_no_throw("--serve"); serve != nullptr && serve->count() > 0)
    fail("--iterations N", "--serve");
  const CLI::Option* const prompt = command.get_option_no_throw("--prompt");
  if (prompt == nullptr) return;
  const auto prompts = prompt->count() > 0 ? prompt->as<std::vector<std::string>>() : std::vector<std::string>();
  if (std::ranges::find(prompts, "-") != prompts.end()) fail("--prompt TEXT", "--prompt -");
  if (prompts.empty() && command.count("--chat") > 0) fail("--prompt TEXT", "a conversation");
}

// Restarts need a state to continue from.
void require_no_restarts(const CLI::App& launch, const std::string& command) {
  for (const char* const option : {"--restarts", "--min-ranks", "--backoff"}) {
    if (launch.count(option) == 0) continue;
    throw UsageError("usage", fmt::format("{}: expected train after --, since only a training run is restarted, got {}",
                                          option, command));
  }
}

// The hosts over which the launcher spreads the ranks.
int count_hosts(const Options& options) {
  if (!options.launch.hostfile.empty()) return static_cast<int>(read_hostfile(options.launch.hostfile).size());
  return options.with == "processes" ? 1 : nodes_of_slurm_job();
}

// Decides on the launcher and, from --nproc-per-node, on the number of ranks.
void choose_ranks(Options& options, const std::string& program) {
  LaunchOptions& launch = options.launch;
  const int given = launch.ranks, each = launch.ranks_per_host;  // 0: not given
  if (given == 0 && each == 0) {
    throw UsageError("usage", "expected -n RANKS or --nproc-per-node RANKS_A_HOST, got neither",
                     program + " launch --help");
  }
  int hosts = each > 0 ? count_hosts(options) : 1;
  launch.launcher = choose_launcher(options.with, given > 0 ? given : hosts * each);
  if (each == 0) return;
  if (launch.launcher == Launcher::processes) hosts = 1;
  launch.ranks = hosts * each;
  if (given == 0 || given == launch.ranks) return;
  throw UsageError("usage",
                   fmt::format("-n {} with --nproc-per-node {}: expected -n {}, for {}", given, each, launch.ranks,
                               recorder::counted(hosts, "host")),
                   "one of the two is enough");
}

Config config_of(const Parsed& train, const Models& models) {
  const std::string file = train.app->get_subcommand("train")->get_option("--config")->as<std::string>();
  return load_config(file, train.config, models);
}

// Throws the UsageError that the ranks of an elastic run would throw, also for a batch that a resume keeps.
void require_batch_for(Config config, int ranks, const World& alone) {
  run::keep_values(config, alone.group());
  config::with_batch(config, ranks);
}

ExitCode run_launch(Options& options, const CLI::App& app, const Invocation& invocation, const Models& models) {
  LaunchOptions& launch = options.launch;
  const Parsed command = parse_command(launch.arguments, models);
  if (!command.needs_ranks) {
    std::fputs(command.text.c_str(), stdout);
    return command.text.empty() ? command.run({invocation.world, command.config, command.command_line}) : ExitCode::ok;
  }
  const bool trains = launch.arguments[0] == "train";
  if (!trains) {
    require_no_restarts(app, launch.arguments[0]);
    require_no_input(command);
  }
  choose_ranks(options, models->program);
  if (launch.min_ranks > launch.ranks) {
    throw UsageError("usage",
                     fmt::format("--min-ranks: expected at most -n {}, got {}", launch.ranks, launch.min_ranks));
  }
  const int nodes = launch.launcher == Launcher::processes ? 1 : nodes_of_slurm_job();
  if (launch.min_ranks > 0 && launch.hostfile.empty() && nodes > 1) {
    throw UsageError("usage",
                     fmt::format("--min-ranks: expected one host or --hostfile, since only hosts that it lists can be "
                                 "left out; found a Slurm job of {} nodes",
                                 nodes),
                     "--with mpirun --hostfile FILE");
  }
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
  if (!trains) return run_once(launch);
  const Config config = config_of(command, models);
  if (is_elastic(config)) require_batch_for(config, launch.ranks, invocation.world);
  return supervise(launch, config);
}

}  // namespace

CommandBody set_up_launch(CLI::App& app, const Models& models) {
  auto options = std::make_shared<Options>();
  LaunchOptions& launch = options->launch;
  launch.ranks = 0;
  app.add_option("-n,--ranks", launch.ranks, "number of ranks")->check(integer_from(1))->option_text("N");
  app.add_option("--nproc-per-node", launch.ranks_per_host,
                 "ranks on each host of --hostfile or of a Slurm job, else on this host; in place of -n")
      ->check(integer_from(1))
      ->option_text("N");
  app.add_option("--restarts", launch.restarts,
                 "maximum number of restarts of train; 0 disables restarts; other commands have none")
      ->check(integer_from(0))
      ->option_text("K = 3");
  app.add_option(
         "--min-ranks", launch.min_ranks,
         "restart on at least M ranks, without hosts of --hostfile that do not answer, and without the host, or on one "
         "host the device, of a rank that failed in two attempts in a row; default: always N, on all")
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
  app.add_option(
         "--backoff", launch.backoff_s,
         "seconds to wait after an attempt of train that saved nothing new, twice that after two in a row, at most 60; "
         "no wait after the first attempt")
      ->check(number_between(0, 86400))
      ->option_text("S = 1");
  app.add_option("COMMAND", launch.arguments, one_of(launched_names(models)) + ", and its options, after --")
      ->option_text("-- train ...");
  return [options, models, &app](const Invocation& invocation) {
    require_alone(models->program);
    return run_launch(*options, app, invocation, models);
  };
}

}  // namespace lt::launch
