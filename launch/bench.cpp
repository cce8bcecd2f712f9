// `ltrain bench`: writes measurements as JSON. `ltrain bench compare` compares two of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "bench/comm.h"
#include "bench/compare.h"
#include "bench/kernels.h"
#include "bench/rates.h"
#include "bench/scaling.h"
#include "bench/step.h"
#include "bench/tune.h"
#include "config/origin.h"
#include "io/print_note.h"
#include "launch/command.h"
#include "launch/config_options.h"
#include "launch/numbers.h"
#include "launch/output_file.h"
#include "launch/progress_line.h"
#include "libtrain/error.h"

namespace lt::launch {
namespace {

// Adds a measurement's options to `app` and returns the function that runs it.
using Measurement = CommandBody (*)(CLI::App& app, const Models& models);

void add_length(CLI::App& app, bench::Options& o, const std::string& what, Size warmup, Size iterations) {
  o.warmup = warmup, o.iterations = iterations;
  app.add_option("--warmup", o.warmup, "warm-up " + what + " before the measurement")
      ->check(integer_from(0))
      ->option_text("N = " + std::to_string(warmup));
  app.add_option("--iterations", o.iterations, what + " to measure")
      ->check(integer_from(1))
      ->option_text("N = " + std::to_string(iterations));
  app.add_option("--out", o.out, "write the JSON to this file instead of standard output")->option_text("FILE");
}

void prepare(bench::Options& options, const Invocation& invocation) {
  options.command = invocation.command_line;
  if (!options.out.empty()) io::outlive_readers();
  collectively(invocation.world.group(), [&] {
    if (invocation.world.rank() == 0 && !options.out.empty()) require_output("--out", options.out);
  });
}

// Throws if configuration keys other than `known` were given; the command line accepts them for every measurement.
void refuse_config(const Invocation& invocation, const Models& models, const char* what, const char* known = "") {
  for (const auto& [key, value] : invocation.config) {
    if (key == known) continue;
    throw UsageError("usage", "unknown option --" + key,
                     "the options: " + models->program + " bench " + what + " --help");
  }
}

CommandBody set_up_kernels(CLI::App& app, const Models& models) {
  struct Values {
    bench::Options options;
    std::string filter;
  };
  const auto o = std::make_shared<Values>();
  const ConfigOptions config_options(app, models);
  add_length(app, o->options, "calls", 5, 50);
  app.add_option("--filter", o->filter,
                 "measure only rows whose text \"name implementation shape dtype\" contains TEXT")
      ->option_text("TEXT");
  return [config_options, o](const Invocation& invocation) {
    const auto config = config_options.load(invocation);
    if (!config) return ExitCode::ok;
    prepare(o->options, invocation);
    config::name_keys(*config, [&] { bench::bench_kernels(*config, invocation.world, o->options, o->filter); });
    return ExitCode::ok;
  };
}

// The option --sizes of measurements of collectives.
void add_sizes(CLI::App& app, std::vector<std::string>& sizes) {
  app.add_option("--sizes", sizes, "sizes of the full (unsharded) array, in bytes or with a unit, separated by commas")
      ->check(list_of(byte_size()))
      ->option_text("N,... = 64KiB,256KiB,1MiB,4MiB,16MiB,64MiB");
}

void take_sizes(bench::CommOptions& options, const std::vector<std::string>& sizes) {
  if (!sizes.empty()) options.sizes.clear();
  for (const std::string& text : parts_of(sizes)) {
    const Size bytes = bytes_of(text);  // a row each, so each size once
    if (std::ranges::find(options.sizes, bytes) == options.sizes.end()) options.sizes.push_back(bytes);
  }
}

CommandBody set_up_rates(CLI::App& app, const Models& models) {
  struct Values {
    bench::CommOptions options;
    std::vector<std::string> sizes;
  };
  const auto o = std::make_shared<Values>();
  const ConfigOptions config_options(app, models);
  add_length(app, o->options, "calls", 5, 50);
  add_sizes(app, o->sizes);
  return [config_options, o, models](const Invocation& invocation) {
    const auto config = config_options.load(invocation);
    if (!config) return ExitCode::ok;
    if (!o->sizes.empty() && invocation.world.size() < 2) {
      throw UsageError("usage",
                       "--sizes: expected at least two ranks, because it sets the sizes of their collectives, got 1",
                       "start it as `" + models->program + " launch -n 2 -- bench rates`, or under mpirun -n 2");
    }
    take_sizes(o->options, o->sizes);
    prepare(o->options, invocation);
    config::name_keys(*config, [&] { bench::bench_rates(*config, invocation.world, o->options); });
    return ExitCode::ok;
  };
}

CommandBody set_up_comm(CLI::App& app, const Models& models) {
  struct Values {
    bench::CommOptions options;
    std::vector<std::string> sizes;
  };
  const auto o = std::make_shared<Values>();
  add_length(app, o->options, "calls", 5, 50);
  // For the help alone; command_line.cpp takes the value.
  const auto unused = [](const CLI::results_t&) { return true; };
  app.add_option("--train.device", CLI::callback_t(unused),
                 "device of the arrays; auto: cuda if this build supports it and the machine has a GPU, else cpu")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->option_text("auto|cpu|cuda = auto");
  add_sizes(app, o->sizes);
  return [o, models](const Invocation& invocation) {
    refuse_config(invocation, models, "comm", "train.device");
    take_sizes(o->options, o->sizes);
    Config config;
    collectively(invocation.world.group(), [&] { config = load_config("", invocation.config, models); });
    const World& world = invocation.world;
    o->options.device = config.train.device ? world.device(*config.train.device) : world.device();
    prepare(o->options, invocation);
    bench::bench_comm(invocation.world, o->options);
    return ExitCode::ok;
  };
}

CommandBody set_up_step(CLI::App& app, const Models& models) {
  struct Values {
    bench::Options options;
    bool serve = false;
  };
  const auto o = std::make_shared<Values>();
  const ConfigOptions config_options(app, models);
  add_length(app, o->options, "steps", 10, 50);
  app.add_flag("--serve", o->serve,
               "time N steps for each line \"run N\" on standard input, until \"end\" or end of file")
      ->excludes(app.get_option("--iterations"))
      ->excludes(app.get_option("--out"));
  return [config_options, o](const Invocation& invocation) {
    const auto config = config_options.load(invocation);
    if (!config) return ExitCode::ok;
    prepare(o->options, invocation);
    config::name_keys(
        *config, [&] { (o->serve ? bench::serve_steps : bench::bench_step)(*config, invocation.world, o->options); });
    return ExitCode::ok;
  };
}

CommandBody set_up_scaling(CLI::App& app, const Models& models) {
  const auto o = std::make_shared<bench::Options>();
  const ConfigOptions config_options(app, models);
  add_length(app, *o, "steps", 10, 50);
  return [config_options, o](const Invocation& invocation) {
    const auto config = config_options.load(invocation);
    if (!config) return ExitCode::ok;
    prepare(*o, invocation);
    config::name_keys(*config, [&] { bench::bench_scaling(*config, invocation.world, *o); });
    return ExitCode::ok;
  };
}

CommandBody set_up_tune(CLI::App& app, const Models& models) {
  struct Values {
    bench::Options options;
    std::string table = "algorithms.txt";
  };
  const auto o = std::make_shared<Values>();
  const ConfigOptions config_options(app, models);
  add_length(app, o->options, "steps", 10, 20);
  app.add_option("--table", o->table, "file for train.algorithms, to which the found algorithms are added")
      ->option_text("FILE = " + o->table);
  return [config_options, o](const Invocation& invocation) {
    const auto config = config_options.load(invocation);
    if (!config) return ExitCode::ok;
    prepare(o->options, invocation);
    collectively(invocation.world.group(), [&] { require_output("--table", o->table); });
    ProgressLine matmuls("bench tune", " matmuls"), steps("bench tune", " steps");
    const auto shows = [](ProgressLine& line) { return [&line](Size done, Size total) { line.show(done, total); }; };
    const bench::ShowProgress progress{
        .matmuls = shows(matmuls), .steps = shows(steps), .hide = [&] { matmuls.hide(), steps.hide(); }};
    config::name_keys(*config, [&] { bench::bench_tune(*config, invocation.world, o->options, o->table, progress); });
    return ExitCode::ok;
  };
}

CommandBody set_up_compare(CLI::App& app, const Models& models) {
  struct Values {
    std::string a, b;
    double percent = 10;
  };
  const auto o = std::make_shared<Values>();
  app.add_option("A", o->a, "baseline result: a file written by --out")->required()->option_text("(required)");
  app.add_option("B", o->b, "new result to compare with the baseline")->required()->option_text("(required)");
  app.add_option("--threshold", o->percent, "differences up to this percentage are never flagged")
      ->check(number_between(0, 1000))
      ->option_text("PERCENT = 10");
  app.footer(
      "A row is slower or faster if the medians differ by more than the noise: the threshold, or twice the spread\n"
      "of the calls in either file if that is larger. A row is unclear if noise above 25 % may hide a difference.\n"
      "Exit code 6: a row is slower; 0: no row is slower; 3: a file is not a result, or the files share no row.");
  return [o, models](const Invocation& invocation) {
    refuse_config(invocation, models, "compare");
    return bench::compare_results(o->a, o->b, o->percent / 100);
  };
}

}  // namespace

CommandBody set_up_bench(CLI::App& app, const Models& models) {
  const struct {
    const char *name, *help;
    Measurement set_up;
    bool for_transformers = false;
  } table[] = {
      {"kernels", "time each kernel at the sizes of a model and compare it with the device's limits; runs on one rank",
       set_up_kernels, true},
      {"comm", "time collectives between the ranks for several array sizes", set_up_comm},
      {"rates", "measure the rates of kernels and collectives on this machine, for `ltrain plan --rates`", set_up_rates,
       true},
      {"step", "time whole training steps on synthetic batches", set_up_step},
      {"scaling", "time training steps on 1, 2, 4, ... ranks, up to all, with each strategy", set_up_scaling},
      {"tune", "search for faster matmul algorithms on a GPU and write a table of them; runs on one rank", set_up_tune},
      {"compare", "compare two results and list rows that differ by more than noise", set_up_compare},
  };
  const auto runs = std::make_shared<std::map<const CLI::App*, CommandBody>>();
  for (const auto& row : table) {
    if (row.for_transformers && !models->transformers) continue;
    CLI::App* sub = app.add_subcommand(row.name, row.help);
    runs->emplace(sub, row.set_up(*sub, models));
  }
  app.require_subcommand(1);
  return [&app, runs](const Invocation& invocation) { return runs->at(app.get_subcommands().front())(invocation); };
}

}  // namespace lt::launch
