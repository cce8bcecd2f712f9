// `ltrain plan`: predicts memory, FLOPs, communication and time of a run without running it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/format/find.h"
#include "config/base_model.h"
#include "config/model_table.h"
#include "config/origin.h"
#include "config/resolve.h"
#include "io/file.h"
#include "launch/command.h"
#include "launch/config_options.h"
#include "launch/numbers.h"
#include "launch/output_file.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/plan/plan_cluster.h"
#include "libtrain/plan/plan_fit.h"
#include "libtrain/plan/plan_sample.h"
#include "libtrain/plan/planner.h"
#include "run/resolve_run.h"
#include "run/training_data.h"

namespace lt::launch {
namespace {

// The numbers in texts that list_of(integer_from(1)) accepted.
std::vector<int> numbers_of(const std::vector<std::string>& lists) {
  std::vector<int> numbers;
  for (const std::string& part : parts_of(lists)) numbers.push_back(std::stoi(part));
  return numbers;
}

// As the launcher's variables say; 1 where they make no sense.
int ranks_of_launcher() {
  try {
    return discover_ranks().size;
  } catch (const CommError&) {
    return 1;
  }
}

}  // namespace

CommandBody set_up_plan(CLI::App& app, const Models& models) {
  struct Options {
    int ranks = 0;       // 0: the ranks of this run
    std::string device;  // empty: that of the rates, or cpu
    int ranks_per_node = 0, cores = 0;
    std::vector<std::string> rates;
    bool json = false, fit = false, sample = false;
    Size rows = 1;
    std::string memory;  // per rank
    std::vector<std::string> nodes;
    std::optional<double> link, network, hop, network_hop;
    std::optional<std::string> svg;
  };
  const auto plan = std::make_shared<Options>();
  const ConfigOptions options(app, models);
  auto* ranks =
      app.add_option("--ranks", plan->ranks, "number of ranks to plan for; default: the number that run this command")
          ->check(integer_from(1, kMostRanks))
          ->option_text("N");
  app.add_option("--gpu", plan->device,
                 "device to plan for, in place of train.device: h100, h200, a100 or cpu; default: device of --rates")
      ->option_text("NAME");
  std::vector<CLI::Option*> of_time;  // that a plan without an estimate of the time cannot use
  of_time.push_back(
      app.add_option("--ranks-per-node", plan->ranks_per_node,
                     "ranks per node, for the time estimate and in-memory copies; default: 8 on GPUs, all ranks on cpu")
          ->check(integer_from(1))
          ->option_text("M"));
  of_time.push_back(app.add_option("--cores", plan->cores, "CPU cores per rank, for the time estimate on cpu")
                        ->check(integer_from(1))
                        ->option_text("N = 1"));
  of_time.push_back(
      app.add_option(
             "--rates", plan->rates,
             "measured rates for the time estimate, from bench rates, bench kernels or bench comm; may be repeated")
          ->option_text("FILE")
          ->type_size(1)
          ->allow_extra_args(false));
  auto* fit = app.add_flag("--fit", plan->fit,
                           "list the strategies, shard sizes, recompute settings and micro-batches that fit in memory; "
                           "exit code 6 if none fits");
  app.add_option("--memory", plan->memory,
                 "memory per rank for --fit and --nodes, with a unit, as in 80GiB; default: memory of the GPU")
      ->check(byte_size_with_unit())
      ->option_text("BYTES");
  auto* nodes = app.add_option("--nodes", plan->nodes,
                               "for each number of nodes, list the fastest configuration that fits in memory; keeps "
                               "train.global_batch if set; exit code 6 if none fits")
                    ->check(list_of(integer_from(1)))
                    ->option_text("N,...")
                    ->excludes(fit)
                    ->excludes(ranks);
  const auto add_link = [&](const char* name, std::optional<double>& value, const char* help, const char* unit) {
    of_time.push_back(app.add_option(name, value, std::string(help) + "; default: from --gpu or --rates")
                          ->check(number_above(0, 1e6))
                          ->option_text(unit));
  };
  add_link("--link", plan->link, "send bandwidth of a rank inside its node, in GB/s", "GB/S");
  add_link("--network", plan->network, "send bandwidth of a rank to other nodes, in GB/s", "GB/S");
  add_link("--hop", plan->hop, "microseconds per hop of a ring inside a node", "US");
  add_link("--network-hop", plan->network_hop, "microseconds per hop of a ring between nodes", "US");
  auto* svg =
      app.add_option("--svg", plan->svg,
                     "write an SVG chart of the memory blocks of a step over time; with --nodes, of the scaling curve")
          ->option_text("FILE")
          ->excludes(fit);
  if (models->transformers) {
    auto* sample =
        app.add_flag("--sample", plan->sample,
                     fmt::format("plan `{} sample` instead, with prompts of train.seq tokens", models->program))
            ->excludes(fit)
            ->excludes(nodes)
            ->excludes(svg)
            ->excludes(ranks);
    for (CLI::Option* const option : of_time) sample->excludes(option);
    app.add_option("--rows", plan->rows, "sequences that --sample generates in parallel")
        ->check(integer_from(1))
        ->option_text("N = 1")
        ->needs(sample);
  }
  app.add_flag("--json", plan->json, "print one JSON object");
  return [options, plan](const Invocation& invocation) {
    auto config = options.load(invocation);
    if (!config) return ExitCode::ok;
    // A run on this machine keeps dtype and global batch of its checkpoint. On another one, train.dtype=auto follows
    // the device.
    if (plan->device.empty() && plan->rates.empty() && !plan->sample) {
      run::keep_values(*config, invocation.world.group());
    }
    // A run that goes on does not need the folder any more; a plan has its shape from there.
    if (const std::string& from = config->model.from; !from.empty()) {
      if (!config::is_transformer(*config)) {
        checkpoint::newest_named(from, "model.from");
      } else {
        plan->sample ? config::require_model_at(from)
                     : config::name_keys(*config, [&] { config::require_same_model(*config); });
      }
    }
    const int ranks = plan->ranks > 0 ? plan->ranks : ranks_of_launcher();
    PlanMachine machine;
    if (plan->cores > 0 && !plan->device.empty() && plan->device != "cpu") {
      throw UsageError("usage", fmt::format("--cores: expected only with --gpu cpu, got --gpu {}", plan->device));
    }
    if (plan->rates.empty()) {
      if (!plan->device.empty()) machine.device = plan->device;
      if (plan->cores > 0) machine.cores = plan->cores;
    } else {
      machine = measured_machine(plan->rates, plan->device, plan->cores);
    }
    machine.is_given = !plan->device.empty() || !plan->rates.empty();
    machine.ranks_per_node = plan->ranks_per_node;
    machine.link_gb_s = plan->link, machine.network_gb_s = plan->network;
    machine.hop_us = plan->hop, machine.network_hop_us = plan->network_hop;
    const Size memory_bytes = plan->memory.empty() ? 0 : bytes_of(plan->memory);
    if (memory_bytes > 0 && !plan->fit && plan->nodes.empty()) {
      throw UsageError("usage", "--memory requires --fit or --nodes");
    }
    if (plan->svg) require_output("--svg", *plan->svg);
    if (!plan->sample) config::name_keys(*config, [&] { run::require_end_of_documents(config::data_spec(*config)); });
    const auto print = [&](const auto& result) { std::puts((plan->json ? to_json(result) : to_text(result)).c_str()); };
    if (plan->sample) {
      print(plan_sample(*config, plan->rows, machine));
    } else if (!plan->nodes.empty()) {
      const Cluster cluster = plan_cluster(*config, numbers_of(plan->nodes), machine, memory_bytes);
      if (plan->svg) io::write_whole_file("plan", *plan->svg, to_svg(cluster));
      print(cluster);
      const auto fits = [](const ClusterRow& row) { return row.best.has_value(); };
      if (std::none_of(cluster.rows.begin(), cluster.rows.end(), fits)) return ExitCode::nothing_fits;
    } else if (plan->fit) {
      const Fit result = fit_memory(*config, ranks, machine, memory_bytes);
      print(result);
      if (result.best < 0) return ExitCode::nothing_fits;
    } else {
      Plan result = make_plan(*config, ranks, machine);
      find_faster_shards(result, *config);
      if (plan->svg) io::write_whole_file("plan", *plan->svg, to_svg(result));
      print(result);
      if (!plan->json && !result.fits_device()) std::puts("\nit does not fit: --fit lists settings that do");
    }
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
