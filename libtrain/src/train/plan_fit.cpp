// Finds what fits into a given memory: plans every strategy and recomputation, and finds the largest micro-batch of
// each.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libtrain/parallel/strategy.h"
#include "libtrain/train/planner.h"
#include "libtrain/train/run_options.h"
#include "record/short_text.h"
#include "train/plan_text.h"

namespace lt {
namespace {

// The peak grows with the micro-batch, so doubling and then bisection find the limit.
void find_largest(FitRow& row, Config config, int ranks, const PlanMachine& machine, Size memory_bytes) {
  const auto fits = [&](Size micro_batch) {
    config.train.micro_batch = micro_batch;
    const Plan plan = make_plan(config, ranks, machine);
    if (plan.peak_bytes > memory_bytes) return false;
    row.micro_batch = micro_batch, row.peak_bytes = plan.peak_bytes, row.tokens_per_s = plan.tokens_per_s;
    return true;
  };
  Size fitting = 0, too_many = 1;
  while (too_many <= kMostFitSamples && fits(too_many)) fitting = too_many, too_many *= 2;
  if (fitting == kMostFitSamples) return;
  while (too_many - fitting > 1 && fitting > 0) {
    const Size middle = (fitting + too_many) / 2;
    (fits(middle) ? fitting : too_many) = middle;
  }
}

// Fills in the values that all rows share.
void describe(Fit& fit, const Plan& plan) {
  fit.machine = plan.machine, fit.dtype = plan.dtype, fit.accum = plan.accum, fit.model_json = plan.model_json;
  fit.subject = fmt::format("{}; {}, sequences of {}, accum {}", plan.model, plan.dtype, plan.seq, plan.accum);
}

std::string mib(Size bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

Fit fit_memory(const Config& asked, int ranks, const PlanMachine& machine, Size memory_bytes) {
  Config given = with_accum(asked, ranks);
  given.train.global_batch = 0;  // the micro-batch varies, accum stays
  Fit fit;
  fit.shard_size = given.parallel.shard_size;
  fit.ranks = ranks, fit.memory_bytes = memory_bytes, fit.given_micro_batch = given.train.micro_batch;
  for (const Strategy& strategy : kStrategies) {
    for (const std::string_view recompute : {"none", "selective", "full"}) {
      Config config = given;
      config.parallel.strategy = strategy.name;
      config.parallel.recompute = recompute;
      if (strategy.optimizer == Placement::replicated) config.parallel.shard_size = 0;
      const Plan plan = make_plan(config, ranks, machine);
      if (fit.rows.empty()) describe(fit, plan);
      FitRow row{std::string(strategy.name), std::string(recompute), plan.peak_bytes, plan.tokens_per_s};
      find_largest(row, config, ranks, machine, memory_bytes);
      fit.rows.push_back(row);
    }
  }
  for (int i = 0; i < static_cast<int>(fit.rows.size()); ++i) {
    const FitRow& row = fit.rows[static_cast<std::size_t>(i)];
    const auto better = [&](int best, double FitRow::*speed) {
      return best < 0 || row.*speed > fit.rows[static_cast<std::size_t>(best)].*speed;
    };
    if (row.given_peak_bytes <= memory_bytes && better(fit.best_given, &FitRow::given_tokens_per_s)) fit.best_given = i;
    if (row.micro_batch > 0 && better(fit.best, &FitRow::tokens_per_s)) fit.best = i;
  }
  return fit;
}

std::string to_json(const Fit& fit) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const FitRow& row : fit.rows) {
    rows.push_back({{"strategy", row.strategy},
                    {"recompute", row.recompute},
                    {"given_peak_bytes", row.given_peak_bytes},
                    {"given_tokens_per_s", row.given_tokens_per_s},
                    {"micro_batch", row.micro_batch},
                    {"peak_bytes", row.micro_batch > 0 ? Json(row.peak_bytes) : Json(nullptr)},
                    {"tokens_per_s", row.micro_batch > 0 ? Json(row.tokens_per_s) : Json(nullptr)}});
  }
  const auto row_or_null = [&](int i) { return i < 0 ? Json(nullptr) : rows[static_cast<std::size_t>(i)]; };
  return Json{{"model", Json::parse(fit.model_json)},
              {"dtype", fit.dtype},
              {"accum", fit.accum},
              {"ranks", fit.ranks},
              {"shard_size", fit.shard_size},
              {"device", fit.machine.device},
              {"cores", fit.machine.cores},
              {"ranks_per_node", std::min(fit.machine.ranks_per_node, fit.ranks)},
              {"memory_bytes", fit.memory_bytes},
              {"given_micro_batch", fit.given_micro_batch},
              {"rows", rows},
              {"best_given", row_or_null(fit.best_given)},
              {"best", row_or_null(fit.best)}}
      .dump(2);
}

std::string to_text(const Fit& fit) {
  std::string text =
      fmt::format("{}\n{} of {} MiB{}; tokens/s are estimates for {}\n\n", fit.subject, counted(fit.ranks, "rank"),
                  mib(fit.memory_bytes),
                  fit.shard_size > 0 ? fmt::format(", sharded over {} (ddp shards nothing)", fit.shard_size) : "",
                  device_text(fit.machine));
  text += fmt::format("{:<10}{:<10} | {:^30} | {:^38}\n", "", "",
                      fmt::format("train.micro_batch={}", fit.given_micro_batch), "the largest micro-batch that fits");
  text += fmt::format("{:<10}{:<10} | {:>12} {:>4} {:>12} | {:>11} {:>12} {:>12}\n", "strategy", "recompute",
                      "peak MiB", "fits", "tokens/s", "micro_batch", "peak MiB", "tokens/s");
  for (const FitRow& row : fit.rows) {
    text += fmt::format("{:<10}{:<10} | {:>12} {:>4} {:>12} | ", row.strategy, row.recompute, mib(row.given_peak_bytes),
                        row.given_peak_bytes <= fit.memory_bytes ? "yes" : "no", short_count(row.given_tokens_per_s));
    text += row.micro_batch == 0
                ? fmt::format("{:>11} {:>12} {:>12}\n", "none", "", "")
                : fmt::format("{:>11} {:>12} {:>12}\n",
                              (row.micro_batch == kMostFitSamples ? ">= " : "") + std::to_string(row.micro_batch),
                              mib(row.peak_bytes), short_count(row.tokens_per_s));
  }
  const auto options = [&](int i, Size micro_batch) {
    const FitRow& row = fit.rows[static_cast<std::size_t>(i)];
    return fmt::format("--parallel.strategy={} --parallel.recompute={} --train.micro_batch={}", row.strategy,
                       row.recompute, micro_batch);
  };
  text += fmt::format("\nfastest with train.micro_batch={}: {}\n", fit.given_micro_batch,
                      fit.best_given < 0 ? "nothing fits" : options(fit.best_given, fit.given_micro_batch));
  text += fmt::format(
      "fastest of all:                   {}",
      fit.best < 0 ? "nothing fits" : options(fit.best, fit.rows[static_cast<std::size_t>(fit.best)].micro_batch));
  return text;
}

}  // namespace lt
