// Finds what fits into a given memory: plans every strategy and recomputation with every shard size, and finds the
// largest micro-batch of each.
#include <fmt/format.h>

#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/train/plan_fit.h"
#include "libtrain/train/run_options.h"
#include "train/plan_trial.h"
#include "train/shard_sizes.h"

namespace lt {
namespace {

// Fills in the values that all rows share.
void describe(Fit& fit, const Plan& plan) {
  fit.machine = plan.machine, fit.dtype = plan.dtype, fit.accum = plan.accum, fit.model_json = plan.model_json;
  fit.subject = fmt::format("{}; {}, sequences of {}, accum {}", plan.model, plan.dtype, plan.seq, plan.accum);
  if (fit.memory_bytes == 0 || (plan.device_bytes > 0 && plan.device_bytes < fit.memory_bytes)) {
    fit.memory_bytes = plan.device_bytes;
  }
}

void keep_better(std::optional<FitTry>& best, const std::optional<FitTry>& tried) {
  if (tried && (!best || better(*tried, *best))) best = tried;
}

FitRow fit_row(Trial& trial, Config config, const std::vector<int>& sizes) {
  FitRow row{config.parallel.strategy, config.parallel.recompute, {}, {}, {}, {}};
  const Size given_micro_batch = config.train.micro_batch;
  Size first = 0;  // the last size's largest micro-batch is near the next one's
  for (const int size : sizes) {
    config.parallel.shard_size = size;
    config.train.micro_batch = given_micro_batch;
    keep_better(row.given, trial.attempt(config));
    const std::optional<FitTry> largest = trial.largest(config, first);
    keep_better(row.largest, largest);
    if (largest) {
      first = largest->micro_batch;
      continue;
    }
    config.train.micro_batch = 1;
    keep_better(row.least, trial.attempt(config));
  }
  if (!row.given || (!row.largest && !row.least)) row.refused = trial.refusal()->what();
  return row;
}

// The row that is best by `of`, which returns null for a row that does not count.
template <class F>
int best_row(const Fit& fit, F of) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(fit.rows.size()); ++i) {
    const FitTry* const row = of(fit.rows[static_cast<std::size_t>(i)]);
    if (row == nullptr) continue;
    if (best < 0 || better(*row, *of(fit.rows[static_cast<std::size_t>(best)]))) best = i;
  }
  return best;
}

}  // namespace

Fit fit_memory(const Config& asked, int ranks, const PlanMachine& machine, Size memory_bytes) {
  Config given = with_accum(asked, ranks);
  given.train.global_batch = 0;  // the micro-batch varies, accum stays
  if (memory_bytes == 0 && machine.device == "cpu") {
    throw UsageError("plan", "--fit: expected --memory with --gpu cpu, got none",
                     "the memory of a rank: --memory 8GiB");
  }
  Fit fit;
  fit.shard_size = static_cast<int>(given.parallel.shard_size);
  fit.ranks = ranks, fit.memory_bytes = memory_bytes, fit.given_micro_batch = given.train.micro_batch;
  std::optional<UsageError> refusal;
  for (const Strategy& strategy : kStrategies) {
    for (const std::string_view recompute : nn::kRecomputeNames) {
      Config config = given;
      config.parallel.strategy = strategy.name;
      config.parallel.recompute = recompute;
      std::vector<int> sizes{0};
      if (!strategy.shards_nothing()) {
        sizes = fit.shard_size > 0 ? std::vector{fit.shard_size} : shard_sizes(ranks, ranks_per_node(machine));
      }
      Trial trial(ranks, machine, memory_bytes);
      fit.rows.push_back(fit_row(trial, config, sizes));
      if (fit.subject.empty() && trial.first_plan()) describe(fit, *trial.first_plan());
      if (!refusal) refusal = trial.refusal();
    }
  }
  if (fit.subject.empty()) throw UsageError(*refusal);  // nothing can run, so the reason is in what all rows share
  const auto if_any = [](const std::optional<FitTry>& tried) { return tried ? &*tried : nullptr; };
  fit.best_given = best_row(
      fit, [&](const FitRow& row) { return row.given && row.given->missing_bytes == 0 ? &*row.given : nullptr; });
  fit.best = best_row(fit, [&](const FitRow& row) { return if_any(row.largest); });
  if (fit.best < 0) fit.nearest = best_row(fit, [&](const FitRow& row) { return if_any(row.least); });
  return fit;
}

}  // namespace lt
