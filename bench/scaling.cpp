// Times each rank alone, then one engine after another on groups of the first ranks.
#include "bench/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bench/step_identity.h"
#include "bench/table.h"
#include "bench/training.h"
#include "config/names.h"
#include "io/print_note.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/parallel/strategy.h"

namespace lt::bench {
namespace {

constexpr const char* kSingle = "single";

// Measurements over the ranks of one group.
struct MeasuredGroup {
  std::vector<double> ms;  // per step, of the slowest rank
  double exposed_share = 0;
  Size peak_bytes = 0, tokens = 0;
};

double exposed(const ActivityTimes& times) {
  return times[static_cast<std::size_t>(Activity::gather_exposed)] +
         times[static_cast<std::size_t>(Activity::reduce_exposed)];
}

// Times this rank's steps and returns its numbers. Sets measured.tokens.
Json time_steps(const Resolved& resolved, const Group& group, const EngineOptions& step_options, const Options& options,
                MeasuredGroup& measured) {
  Training training(resolved, group, step_options);
  training.time_steps(options.warmup);
  std::vector<double> ms;
  double waited = 0;
  for (const ActivityTimes& step : training.time_steps(options.iterations)) {
    ms.push_back(sum(step));
    waited += exposed(step);
  }
  measured.tokens = training.tokens();
  return {{"ms", ms}, {"waited_ms", waited}, {"peak_bytes", memory_peak(step_options.device).total}};
}

// Trains on `group`. Returns a measurement for each rank of `all`, in which every rank trains.
std::vector<MeasuredGroup> measure_each(const Resolved& resolved, const Group& group, const Group& all,
                                        const EngineOptions& step_options, const Options& options) {
  MeasuredGroup own;
  reset_memory_peak(step_options.device);
  const Json mine = time_steps(resolved, group, step_options, options, own);
  std::vector<MeasuredGroup> measured;
  for (const std::string& text : all.all_gather_bytes(mine.dump())) {
    const Json theirs = Json::parse(text);
    const auto ms = theirs["ms"].get<std::vector<double>>();
    const double total = std::accumulate(ms.begin(), ms.end(), 0.0);
    measured.push_back({ms, theirs["waited_ms"].get<double>() / total, theirs["peak_bytes"].get<Size>(), own.tokens});
  }
  return measured;
}

// Ranks that train together: every step counts for the slowest of them.
MeasuredGroup together(const std::vector<MeasuredGroup>& ranks) {
  MeasuredGroup measured{std::vector<double>(ranks.front().ms.size()), 0, 0, ranks.front().tokens};
  for (const MeasuredGroup& rank : ranks) {
    for (std::size_t i = 0; i < rank.ms.size(); ++i) measured.ms[i] = std::max(measured.ms[i], rank.ms[i]);
    measured.exposed_share += rank.exposed_share / static_cast<double>(ranks.size());
    measured.peak_bytes = std::max(measured.peak_bytes, rank.peak_bytes);
  }
  return measured;
}

// `row` has the identity.
Json row_of(const MeasuredGroup& measured, Json row) {
  const double rate = static_cast<double>(measured.tokens) / median(measured.ms) * 1e3;
  const int ranks = row["ranks"].get<int>();
  row.update({{"ms", times(cut_into_blocks(measured.ms))},
              {"tokens_per_step", measured.tokens},
              {"tokens_per_s", rate},
              {"tokens_per_s_per_rank", rate / ranks},
              {"efficiency", 1.0},
              {"exposed_share", measured.exposed_share},
              {"memory_peak_bytes", measured.peak_bytes}});
  return row;
}

constexpr Column kScalingColumns[] = {{"ranks", 5},   {"strategy", -9}, {"median ms", 10}, {"min ms", 10},
                                      {"max ms", 10}, {"tokens/s", 12}, {"per rank", 12},  {"efficiency", 11},
                                      {"exposed", 8}, {"peak MiB", 10}};

void print_scaling_row(const Json& row) {
  const Json& ms = row["ms"];
  print_cells(kScalingColumns,
              {row["ranks"].dump(), row["strategy"].get<std::string>(), fixed(ms["median"], 2), fixed(ms["min"], 2),
               fixed(ms["max"], 2), fixed(row["tokens_per_s"], 0), fixed(row["tokens_per_s_per_rank"], 0),
               fixed(row["efficiency"], 3), fixed(row["exposed_share"], 1, 100) + " %",
               fixed(row["memory_peak_bytes"], 2, 1.0 / (1 << 20))});
}

}  // namespace

std::vector<int> rank_counts(int ranks) {
  std::vector<int> counts;
  for (int n = 1; n < ranks; n *= 2) counts.push_back(n);
  counts.push_back(ranks);
  return counts;
}

void bench_scaling(const Config& given, const World& world, const Options& options) {
  if (given.parallel.shard_size != 0) {
    throw UsageError("bench", fmt::format("scaling: parallel.shard_size: expected 0, all ranks of each count, got {}",
                                          given.parallel.shard_size));
  }
  if (given.train.global_batch != 0) {
    throw UsageError("bench", fmt::format("scaling: train.global_batch: expected 0, the same work a rank, got {}",
                                          given.train.global_batch));
  }
  Resolved resolved = resolve(given, world.size());
  const EngineOptions step = step_options_with_algorithms(resolved, world);
  const bool speaks = world.rank() == 0;
  if (speaks && given.parallel.strategy != Config().parallel.strategy) {
    io::print_note("parallel.strategy={} is ignored: scaling measures every strategy\n",
                   config::name_of(given.parallel.strategy));
  }
  Json rows = Json::array();
  if (speaks) print_header(kScalingColumns);
  const auto result = [&] { return new_result("scaling", world, options, step.device); };
  const auto keep = [&](Json row) {
    rows.push_back(std::move(row));
    if (!speaks) return;
    print_scaling_row(rows.back());
    save_result(result(), rows, options.out);
  };
  resolved.parallel.strategy = Strategy::ddp;
  const Group own = world.group().split([](int r) { return r; }, "alone");
  world.group().barrier();
  const Json of_one = step_identity(resolved, 1, kSingle);
  const std::vector<MeasuredGroup> alone = measure_each(resolved, own, world.group(), step, options);
  const auto is_slower = [](const MeasuredGroup& a, const MeasuredGroup& b) { return median(a.ms) < median(b.ms); };
  std::vector<double> medians;
  for (const MeasuredGroup& rank : alone) medians.push_back(median(rank.ms));
  keep(row_of(*std::max_element(alone.begin(), alone.end(), is_slower), of_one));
  rows.back()["ranks_alone_ms"] = medians;
  for (const int n : rank_counts(world.size())) {
    if (n == 1) continue;
    const Group group = world.group().split([n](int r) { return r < n ? 0 : 1; }, fmt::format("first {}", n));
    for (const Strategy& strategy : kStrategies) {
      if (world.rank() >= n) continue;
      resolved.parallel.strategy = strategy;
      const Json identity = step_identity(resolved, n, config::name_of(strategy));
      const MeasuredGroup measured = together(measure_each(resolved, group, group, step, options));
      Json row = row_of(measured, identity);
      row["efficiency"] = *std::max_element(medians.begin(), medians.begin() + n) / median(measured.ms);
      keep(std::move(row));
    }
    world.group().idle_barrier();
  }
  if (speaks) write_result(result(), std::move(rows), options.out);
}

}  // namespace lt::bench
