// Finds what fits into a given memory: plans every strategy and recomputation with every shard size, and finds the
// largest micro-batch of each.
#include <fmt/format.h>

#include <algorithm>

#include "config/derive.h"
#include "config/names.h"
#include "libtrain/error.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/plan/plan_fit.h"
#include "plan/plan_trial.h"
#include "plan/shard_sizes.h"
#include "record/short_text.h"

namespace lt {
namespace {

// Fills in the values that all rows share.
void describe(Fit& fit, const Plan& plan) {
  fit.machine = plan.machine, fit.dtype = plan.dtype, fit.model_json = plan.model_json;
  fit.subject = fmt::format("{}; {}, sequences of {}, {}", plan.model, config::name_of(plan.dtype), plan.seq,
                            fit.global_batch > 0 ? "global batches of " + recorder::counted(fit.global_batch, "sample")
                                                 : fmt::format("accum {}", fit.accum));
  if (fit.memory_bytes == 0 || (plan.device_bytes > 0 && plan.device_bytes < fit.memory_bytes)) {
    fit.memory_bytes = plan.device_bytes;
  }
}

void keep_better(std::optional<FitTry>& best, const std::optional<FitTry>& tried) {
  if (tried && (!best || planner::better(*tried, *best))) best = tried;
}

// `samples` of a rank in a step; 0: as many as the micro-batch has, with the given accum.
FitRow fit_row(planner::Trial& trial, const Config& given, const std::vector<int>& sizes, Size samples) {
  FitRow row{given.parallel.strategy, given.parallel.recompute, {}, {}, {}, {}};
  Size first = 0;  // the last size's largest micro-batch is near the next one's
  for (const int size : sizes) {
    Config config = given;
    config.parallel.shard_size = size;
    keep_better(row.given, trial.attempt(config));
    const std::optional<FitTry> largest = trial.largest(config, first, samples);
    keep_better(row.largest, largest);
    if (largest) {
      first = largest->micro_batch;
      continue;
    }
    config.train.micro_batch = 1;
    if (samples > 0) config.train.accum = samples;
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
    if (best < 0 || planner::better(*row, *of(fit.rows[static_cast<std::size_t>(best)]))) best = i;
  }
  return best;
}

}  // namespace

Fit fit_memory(const Config& asked, int ranks, const PlanMachine& machine, Size memory_bytes) {
  Config given = config::with_batch(asked, ranks);
  given.train.global_batch = 0;  // each row has an accum for it
  if (memory_bytes == 0 && machine.device == "cpu") {
    throw UsageError("plan", "--fit: expected --memory with --gpu cpu, got none",
                     "the memory of a rank: --memory 8GiB");
  }
  Fit fit;
  fit.shard_size = static_cast<int>(given.parallel.shard_size);
  fit.ranks = ranks, fit.memory_bytes = memory_bytes, fit.given_micro_batch = given.train.micro_batch;
  fit.global_batch = asked.train.global_batch, fit.accum = given.train.accum;
  std::optional<UsageError> refusal;
  for (const Strategy& strategy : kStrategies) {
    for (const auto& [name, recompute] : config::kNames<Recompute>) {
      Config config = given;
      config.parallel.strategy = strategy, config.parallel.recompute = recompute;
      std::vector<int> sizes{0};
      if (!strategy.shards_nothing()) {
        sizes = fit.shard_size > 0 ? std::vector{fit.shard_size}
                                   : planner::shard_sizes(ranks, planner::ranks_per_node(machine));
      }
      planner::Trial trial(ranks, machine, memory_bytes);
      fit.rows.push_back(fit_row(trial, config, sizes, fit.global_batch / ranks));
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
