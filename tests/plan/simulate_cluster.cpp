// Compares the planner's estimate with the simulator on clusters of growing size:
//
//   simulate_cluster [--gpu h100] [--ranks 8,16,...] [--section.key=value ...]
//
// Prints a Markdown table. The options of the model are those of `ltrain plan`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "libtrain/config/config.h"
#include "libtrain/error.h"
#include "plan/cluster_simulator.h"

namespace {

using namespace lt;
using namespace lt_test;

std::vector<int> numbers(const std::string& text) {
  std::vector<int> result;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 1) {
      throw UsageError("simulate_cluster", "--ranks: expected numbers of ranks with commas between them, got " + text);
    }
    result.push_back(number);
  }
  return result;
}

void print_row(const Config& config, int ranks, const PlanMachine& machine) {
  lt::planner::StepSchedule schedule;
  const Plan plan = lt::planner::make_plan_with_schedule(config, ranks, machine, schedule);
  ClusterSimulator simulator(lt::planner::find_device_model(machine.device), {ranks, plan.machine.ranks_per_node});
  const SimulatedStep step = simulator.step(schedule);
  const StepTime& time = plan.step_time;
  fmt::print("| {} | {:.1f} | {:.1f} | {:+.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", ranks, time.total_ms(),
             step.total_ms, std::round(1000 * (time.total_ms() / step.total_ms - 1)) / 10 + 0.0, time.collectives_ms,
             step.collectives_ms, time.exposed_ms(), step.exposed_ms);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  std::vector<std::pair<std::string, std::string>> keys;
  std::vector<int> ranks = {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  PlanMachine machine{.device = "h100"};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (argument == "--gpu" && i + 1 < argc) {
      machine.device = argv[++i];
    } else if (argument == "--ranks" && i + 1 < argc) {
      ranks = numbers(argv[++i]);
    } else if (argument.starts_with("--") && equals != argument.npos) {
      keys.emplace_back(argument.substr(2, equals - 2), argument.substr(equals + 1));
    } else {
      throw UsageError("simulate_cluster",
                       "expected --gpu NAME, --ranks N,... or --section.key=value, got " + argument);
    }
  }
  fmt::print(
      "| ranks | planner, ms | simulator, ms | % | collectives, planner | simulator | exposed, planner | simulator |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const int count : ranks) {
    Config config = load_config("", keys);
    if (config.parallel.shard_size >= count) config.parallel.shard_size = 0;
    print_row(config, count, machine);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
