// Finds what fits into a given memory: plans every strategy and recomputation with every shard size, and finds the
// largest micro-batch of each.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "libtrain/error.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/train/planner.h"
#include "libtrain/train/run_options.h"
#include "train/shard_sizes.h"

namespace lt {
namespace {

// Plans configurations of one machine against one memory.
class Trial {
 public:
  Trial(int ranks, const PlanMachine& machine, Size memory_bytes)
      : ranks_(ranks), machine_(machine), memory_bytes_(memory_bytes) {}

  Plan plan(const Config& config) const { return make_plan(config, ranks_, machine_); }

  // What a rank may hold: what was asked, and what the GPU has; less what CUDA and NCCL take.
  Size limit_bytes(const Plan& plan) const {
    const Size most = std::numeric_limits<Size>::max();
    const Size asked = memory_bytes_ == 0 ? most : memory_bytes_,
               has = plan.device_bytes == 0 ? most : plan.device_bytes;
    return std::min(asked, has) - plan.outside_bytes;
  }

  FitTry judged(const Plan& plan) const {
    return {plan.micro_batch, plan.shard_size, plan.peak_bytes, std::max<Size>(0, plan.peak_bytes - limit_bytes(plan)),
            plan.tokens_per_s};
  }

  // The peak grows with the micro-batch, so growing steps from `first` and then bisection find the limit. Micro-batches
  // that kernels refuse do not fit.
  std::optional<FitTry> largest(Config config, Size first) const {
    std::optional<FitTry> found;
    Size fitting = 0, too_many = 0;  // too_many 0: not known
    for (Size at = std::max<Size>(1, first), stride = 1; at > 0;) {
      config.train.micro_batch = at;
      const std::optional<FitTry> tried = attempt(config);
      if (tried && tried->missing_bytes == 0) {
        found = tried, fitting = at;
        if (fitting == kMostFitSamples) break;
      } else {
        too_many = at;
      }
      if (too_many > 0 && too_many - fitting <= 1) break;
      if (too_many == 0) {
        at = std::min(at + stride, kMostFitSamples), stride *= 2;
      } else if (fitting == 0) {
        at = std::max<Size>(1, at - stride), stride *= 2;
      } else {
        at = (fitting + too_many) / 2;
      }
    }
    return found;
  }

 private:
  std::optional<FitTry> attempt(const Config& config) const {
    try {
      return judged(plan(config));
    } catch (const UsageError&) {
      return std::nullopt;
    }
  }

  int ranks_;
  PlanMachine machine_;
  Size memory_bytes_;
};

// Fills in the values that all rows share.
void describe(Fit& fit, const Plan& plan) {
  fit.machine = plan.machine, fit.dtype = plan.dtype, fit.accum = plan.accum, fit.model_json = plan.model_json;
  fit.subject = fmt::format("{}; {}, sequences of {}, accum {}", plan.model, plan.dtype, plan.seq, plan.accum);
  if (fit.memory_bytes == 0 || (plan.device_bytes > 0 && plan.device_bytes < fit.memory_bytes)) {
    fit.memory_bytes = plan.device_bytes;
  }
}

// What fits is better than what does not, then the faster. Sums of the same times in another order are equal.
bool better(const FitTry& a, const FitTry& b) {
  constexpr double kEqual = 1 + 1e-9;
  if (a.missing_bytes != b.missing_bytes) return a.missing_bytes < b.missing_bytes;
  return a.tokens_per_s > kEqual * b.tokens_per_s;
}

FitRow fit_row(const Trial& trial, Config config, const std::vector<int>& sizes, Fit& fit) {
  FitRow row{config.parallel.strategy, config.parallel.recompute, {}, {}, {}};
  const Size given_micro_batch = config.train.micro_batch;
  Size first = 0;  // the last size's largest micro-batch is near the next one's
  bool has_given = false, has_least = false;
  for (const int size : sizes) {
    config.parallel.shard_size = size;
    config.train.micro_batch = given_micro_batch;
    const Plan plan = trial.plan(config);
    if (fit.subject.empty()) describe(fit, plan);
    const FitTry given = trial.judged(plan);
    if (!has_given || better(given, row.given)) row.given = given, has_given = true;
    const std::optional<FitTry> largest = trial.largest(config, first);
    if (largest) {
      first = largest->micro_batch;
      if (!row.largest || better(*largest, *row.largest)) row.largest = largest;
      continue;
    }
    config.train.micro_batch = 1;
    const FitTry least = trial.judged(trial.plan(config));
    if (!has_least || better(least, row.least)) row.least = least, has_least = true;
  }
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
  const Trial trial(ranks, machine, memory_bytes);
  for (const Strategy& strategy : kStrategies) {
    for (const std::string_view recompute : {"none", "selective", "full"}) {
      Config config = given;
      config.parallel.strategy = strategy.name;
      config.parallel.recompute = recompute;
      std::vector<int> sizes{0};
      if (!strategy.shards_nothing()) {
        sizes = fit.shard_size > 0 ? std::vector{fit.shard_size} : shard_sizes(ranks, fit.machine.ranks_per_node);
      }
      fit.rows.push_back(fit_row(trial, config, sizes, fit));
    }
  }
  fit.best_given = best_row(fit, [](const FitRow& row) { return row.given.missing_bytes == 0 ? &row.given : nullptr; });
  fit.best = best_row(fit, [](const FitRow& row) { return row.largest ? &*row.largest : nullptr; });
  if (fit.best < 0) fit.nearest = best_row(fit, [](const FitRow& row) { return &row.least; });
  return fit;
}

}  // namespace lt
