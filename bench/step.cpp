// The step benchmark: an engine as `train` makes it, on tokens that a generator makes.
#include "step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "libtrain/error.h"
#include "libtrain/memory.h"
#include "libtrain/part_clock.h"
#include "libtrain/random.h"
#include "libtrain/run_options.h"
#include "train/machine.h"

namespace lt::bench {
namespace {

using Json = nlohmann::ordered_json;

Batch random_batch(const BatchShape& shape, Size vocab) {
  const MemoryScope owner(MemoryOwner::data);
  const auto tokens = [&](std::string_view name) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.samples() * shape.seq));
    const std::uint64_t key = derive_key(static_cast<std::uint64_t>(shape.rank), name);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(philox_word(key, i) % static_cast<std::uint64_t>(vocab));
    }
    return Tensor::from(ids, {shape.samples(), shape.seq});
  };
  return {tokens("inputs"), tokens("targets")};
}

// A model in training whose steps can be timed one by one.
class Bench {
 public:
  Bench(const Config& config, const World& world)
      : config_(resolve(config)),
        model_(nn::make_transformer(model_spec(config_))),
        engine_(*model_, world.group(), parallel_options(config_), adamw_options(config_), step_options(config_)),
        batch_(random_batch(engine_.batch_shape(), model_->spec().vocab)) {}

  // Parts of one step in ms. Reading the loss ends the step.
  std::array<double, kParts> time_step() {
    PartClock clock;
    PartClock::set_current(&clock);
    const float loss = engine_.step(batch_).loss();
    PartClock::set_current(nullptr);
    if (!(loss < 1e30f)) throw NonFiniteError("bench step: the loss is not finite");
    return clock.take();
  }

  const Config& config() const { return config_; }
  Size tokens() const { return engine_.batch_shape().global_tokens(); }
  double flops() const { return model_->flops_per_token(config_.train.seq) * static_cast<double>(tokens()); }

 private:
  Config config_;
  std::unique_ptr<nn::Transformer> model_;
  Engine engine_;
  Batch batch_;
};

double sum(const std::array<double, kParts>& parts) {
  double total = 0;
  for (const double ms : parts) total += ms;
  return total;
}

Json spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {{"min", values.front()}, {"median", median}, {"max", values.back()}};
}

}  // namespace

void bench_step(const Config& config, const World& world, const StepBenchOptions& options, const std::string& command) {
  Bench bench(config, world);
  for (Size i = 0; i < options.warmup; ++i) bench.time_step();
  std::vector<double> ms;
  std::array<std::vector<double>, kParts> parts;
  for (Size i = 0; i < options.iterations; ++i) {
    const auto step = bench.time_step();
    ms.push_back(sum(step));
    for (std::size_t p = 0; p < kParts; ++p) parts[p].push_back(step[p]);
  }
  if (world.rank() != 0) return;

  const Json step_ms = spread(ms);
  const double median_s = step_ms["median"].get<double>() / 1e3;
  Json breakdown;
  for (std::size_t p = 0; p < kParts; ++p) breakdown[std::string(kPartNames[p])] = spread(parts[p]);
  Json result = {{"benchmark", "step"},
                 {"command", command},
                 {"machine", machine(world)},
                 {"model", bench.config().model.preset},
                 {"dtype", bench.config().train.dtype},
                 {"strategy", bench.config().parallel.strategy},
                 {"recompute", bench.config().parallel.recompute},
                 {"tokens_per_step", bench.tokens()},
                 {"flops_per_step", bench.flops()},
                 {"warmup", options.warmup},
                 {"iterations", options.iterations},
                 {"step_ms", step_ms},
                 {"tokens_per_s", static_cast<double>(bench.tokens()) / median_s},
                 {"gflops", bench.flops() / median_s / 1e9},
                 {"breakdown_ms", breakdown}};
  std::puts(result.dump(2).c_str());
  if (options.out.empty()) return;
  std::ofstream file(options.out);
  file << result.dump(2) << "\n";
  if (!file.flush()) throw DataError("bench", options.out + ": cannot write");
}

void serve_steps(const Config& config, const World& world, const StepBenchOptions& options) {
  Bench bench(config, world);
  for (Size i = 0; i < options.warmup; ++i) bench.time_step();
  if (world.rank() == 0) {
    std::cout << Json{{"program", "libtrain"}, {"tokens_per_step", bench.tokens()}, {"machine", machine(world)}}.dump()
              << std::endl;
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
    for (Size i = 0; i < count; ++i) ms.push_back(sum(bench.time_step()));
    if (world.rank() == 0) std::cout << Json{{"ms", ms}}.dump() << std::endl;
  }
}

}  // namespace lt::bench
