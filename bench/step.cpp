// Implements `ltrain bench step` and its option --serve.
#include "bench/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/step_identity.h"
#include "bench/table.h"
#include "bench/training.h"
#include "comm/value_exchange.h"
#include "config/model_table.h"
#include "config/names.h"
#include "io/print_note.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "run/machine.h"

namespace lt::bench {
namespace {

constexpr Column kStepColumns[] = {{"activity", -16}, {"median ms", 10}, {"min ms", 10}, {"max ms", 10}, {"share", 8}};

// The share is that of the sum over all steps.
void print_activity(const std::string& name, const std::vector<double>& ms, const std::vector<double>& of_step) {
  const Json times = spread(ms);
  const double share =
      std::accumulate(ms.begin(), ms.end(), 0.0) / std::accumulate(of_step.begin(), of_step.end(), 0.0);
  print_cells(kStepColumns, {name, fixed(times["median"], 3), fixed(times["min"], 3), fixed(times["max"], 3),
                             fixed(share, 1, 100) + " %"});
}

// The activities that took any time, and the whole step.
void print_table(const Json& row, const std::vector<double>& ms,
                 const std::array<std::vector<double>, kActivities>& activities) {
  const auto text = [&](const char* field) { return row[field].get<std::string>(); };
  io::print_note("{}: {}\n{} on {}, recompute {}, {}{}\n", text("name"), text("shape"), text("strategy"),
                 recorder::counted(row["ranks"].get<Size>(), "rank"), text("recompute"), text("dtype"),
                 row.contains("options") ? ", " + text("options") : "");
  print_header(kStepColumns);
  for (std::size_t p = 0; p < kActivities; ++p) {
    if (*std::ranges::max_element(activities[p]) > 0) print_activity(std::string(kActivityNames[p]), activities[p], ms);
  }
  print_activity("step", ms, ms);
  io::print_note("{:.0f} tokens/s\n", row["tokens_per_s"].get<double>());
}

// The largest peak of all ranks.
Size memory_peak_bytes(const World& world, Device device) {
  return std::ranges::max(comm::gather_values(world.group(), memory_peak(device).total));
}

// What the steps depend on: the keys of [model], [parallel], [train] and [optim] with their values as in TOML.
Json configuration_of(const Resolved& resolved) {
  Json keys = Json::object();
  for (const auto& [key, value] : flatten(resolved.config)) {
    for (const char* section : {"model.", "parallel.", "train.", "optim."}) {
      if (key.starts_with(section)) keys[key] = value;
    }
  }
  return keys;
}

// The number of steps that a line "run N" asks for.
Size steps_asked(std::string_view line) {
  constexpr std::string_view kRun = "run ";
  Size count = 0;
  const char* const end = line.data() + line.size();
  const bool has_number = line.starts_with(kRun) && std::from_chars(line.data() + kRun.size(), end, count).ptr == end;
  if (has_number && count >= 1) return count;
  throw UsageError("bench",
                   fmt::format("standard input: expected \"run N\" with N from 1, or \"end\", got \"{}\"", line));
}

}  // namespace

void bench_step(const Config& given, const World& world, const Options& options) {
  const Resolved resolved = resolve(given, world.size());
  Json row = step_identity(resolved, world.size(), config::name_of(resolved.parallel.strategy));
  const EngineOptions step_options = step_options_with_algorithms(resolved, world);
  Training training(resolved, world.group(), step_options);
  training.time_steps(options.warmup);
  std::vector<double> ms;
  std::array<std::vector<double>, kActivities> activities;
  for (const ActivityTimes& step : training.time_steps(options.iterations)) {
    ms.push_back(sum(step));
    for (std::size_t p = 0; p < kActivities; ++p) activities[p].push_back(step[p]);
  }
  const Device device = step_options.device;
  const Size peak_bytes = memory_peak_bytes(world, device);
  if (world.rank() != 0) return;

  const double median_s = median(ms) / 1e3, tokens = static_cast<double>(training.tokens());
  Json breakdown;
  for (std::size_t p = 0; p < kActivities; ++p) breakdown[std::string(kActivityNames[p])] = spread(activities[p]);
  Json result = new_result("step", world, options, device);
  result.update(Json{{"model", config::model_name(resolved)},
                     {"dtype", config::name_of(resolved.precision)},
                     {"strategy", config::name_of(resolved.parallel.strategy)},
                     {"recompute", config::name_of(resolved.parallel.recompute)},
                     {"tokens_per_step", training.tokens()},
                     {"flops_per_step", training.flops()},
                     {"step_ms", spread(ms)},
                     {"tokens_per_s", tokens / median_s},
                     {"gflops", training.flops() / median_s / 1e9},
                     {"breakdown_ms", breakdown}});
  row.update(
      {{"ms", times(cut_into_blocks(ms))}, {"tokens_per_s", tokens / median_s}, {"memory_peak_bytes", peak_bytes}});
  print_table(row, ms, activities);
  write_result(std::move(result), Json::array({row}), options.out);
}

void serve_steps(const Config& given, const World& world, const Options& options) {
  const Resolved resolved = resolve(given, world.size());
  const EngineOptions step_options = step_options_with_algorithms(resolved, world);
  Training training(resolved, world.group(), step_options);
  training.time_steps(options.warmup);
  if (world.rank() == 0) {
    const Json ready = {{"program", "libtrain"},
                        {"tokens_per_step", training.tokens()},
                        {"peak_bytes", memory_peak(step_options.device).total},
                        {"configuration", configuration_of(resolved)},
                        {"machine", run::machine(world)}};
    std::cout << ready.dump() << std::endl;
  }
  while (true) {
    std::string line;
    if (world.rank() == 0 && !std::getline(std::cin, line)) line = "end";
    world.group().idle_barrier();  // a rank that spins would slow the other program down
    line = world.group().broadcast_bytes(line, 0);
    if (line == "end") return;
    const std::vector<double> ms = training.step_ms(steps_asked(line));
    if (world.rank() == 0) std::cout << Json{{"ms", ms}}.dump() << std::endl;
  }
}

}  // namespace lt::bench
