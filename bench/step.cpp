// Implements `ltrain bench step` and its option --serve.
#include "step.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "libtrain/error.h"
#include "libtrain/train/run_options.h"
#include "train/machine.h"
#include "train/rank_device.h"
#include "training.h"

namespace lt::bench {

void bench_step(const Config& given, const World& world, const Options& options) {
  const Config config = with_accum(resolve(given), world.size());
  Training training(config, world.group(), step_options_of_rank(config, world));
  training.time_steps(options.warmup);
  std::vector<double> ms;
  std::array<std::vector<double>, kActivities> activities;
  for (const ActivityTimes& step : training.time_steps(options.iterations)) {
    ms.push_back(sum(step));
    for (std::size_t p = 0; p < kActivities; ++p) activities[p].push_back(step[p]);
  }
  if (world.rank() != 0) return;

  const double median_s = median(ms) / 1e3, tokens = static_cast<double>(training.tokens());
  Json breakdown;
  for (std::size_t p = 0; p < kActivities; ++p) breakdown[std::string(kActivityNames[p])] = spread(activities[p]);
  Json result = new_result("step", world, options);
  result.update(Json{{"model", nn::model_name(model_spec(config))},
                     {"dtype", config.train.dtype},
                     {"strategy", config.parallel.strategy},
                     {"recompute", config.parallel.recompute},
                     {"tokens_per_step", training.tokens()},
                     {"flops_per_step", training.flops()},
                     {"step_ms", spread(ms)},
                     {"tokens_per_s", tokens / median_s},
                     {"gflops", training.flops() / median_s / 1e9},
                     {"breakdown_ms", breakdown}});
  const Json row = {{"name", nn::model_name(model_spec(config))},
                    {"shape", step_shape(config)},
                    {"dtype", config.train.dtype},
                    {"ranks", world.size()},
                    {"strategy", config.parallel.strategy},
                    {"recompute", config.parallel.recompute},
                    {"ms", times(cut_into_blocks(ms))},
                    {"tokens_per_s", tokens / median_s}};
  write_result(std::move(result), Json::array({row}), options.out);
}

void serve_steps(const Config& given, const World& world, const Options& options) {
  const Config config = with_accum(resolve(given), world.size());
  Training training(config, world.group(), step_options_of_rank(config, world));
  training.time_steps(options.warmup);
  if (world.rank() == 0) {
    const Json ready = {{"program", "libtrain"},
                        {"tokens_per_step", training.tokens()},
                        {"peak_bytes", memory_peak(step_options_of_rank(config, world).device).total},
                        {"machine", machine(world)}};
    std::cout << ready.dump() << std::endl;
  }
  while (true) {
    std::string line;
    if (world.rank() == 0 && !std::getline(std::cin, line)) line = "end";
    line = world.group().broadcast_bytes(line, 0);
    if (line == "end") return;
    Size count = 0;
    if (std::sscanf(line.c_str(), "run %ld", &count) != 1) {
      throw UsageError("bench", fmt::format("standard input: expected \"run N\", got \"{}\"", line));
    }
    Json ms = Json::array();
    for (const ActivityTimes& step : training.time_steps(count)) ms.push_back(sum(step));
    if (world.rank() == 0) std::cout << Json{{"ms", ms}}.dump() << std::endl;
  }
}

}  // namespace lt::bench
