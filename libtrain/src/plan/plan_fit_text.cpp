// Writes a fit as JSON for programs and as text for people.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "config/names.h"
#include "drawing/text.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/plan/plan_fit.h"
#include "plan/plan_text.h"
#include "record/short_text.h"

namespace lt {
namespace {

using drawing::bytes_text;
using Json = nlohmann::ordered_json;

Json row_json(const FitRow& row) {
  const auto& [given, largest] = std::tie(row.given, row.largest);
  return {{"strategy", config::name_of(row.strategy)},
          {"recompute", config::name_of(row.recompute)},
          {"given_peak_bytes", given ? Json(given->peak_bytes) : Json(nullptr)},
          {"given_fits", given && given->missing_bytes == 0},
          {"given_shard_size", given ? Json(given->shard_size) : Json(nullptr)},
          {"given_tokens_per_s", given ? Json(given->tokens_per_s) : Json(nullptr)},
          {"micro_batch", largest ? largest->micro_batch : 0},
          {"accum", largest ? Json(largest->accum) : Json(nullptr)},
          {"shard_size", largest ? Json(largest->shard_size) : Json(nullptr)},
          {"peak_bytes", largest ? Json(largest->peak_bytes) : Json(nullptr)},
          {"tokens_per_s", largest ? Json(largest->tokens_per_s) : Json(nullptr)},
          {"refused", row.refused.empty() ? Json(nullptr) : Json(row.refused)}};
}

// With accum where it follows from the batch: the given one may be of another micro-batch.
std::string options_of(const Fit& fit, const FitRow& row, const FitTry& tried) {
  return fmt::format("--parallel.strategy={}{} --parallel.recompute={} --train.micro_batch={}{}", row.strategy.name,
                     tried.shard_size > 0 ? fmt::format(" --parallel.shard_size={}", tried.shard_size) : "",
                     config::name_of(row.recompute), tried.micro_batch,
                     fit.global_batch > 0 ? fmt::format(" --train.accum={}", tried.accum) : "");
}

const FitRow& row_at(const Fit& fit, int i) { return fit.rows.at(static_cast<std::size_t>(i)); }

// The shard size where rows may differ in it: ddp shards nothing.
std::string shard_text(const Fit& fit, const FitRow& row, const FitTry& tried) {
  return row.strategy.shards_nothing() ? "" : std::to_string(tried.shard_size == 0 ? fit.ranks : tried.shard_size);
}

// Each reason once, with the rows that have it.
std::string refusals_text(const Fit& fit) {
  std::vector<std::pair<std::string, std::string>> rows_of;  // what is refused and why; the rows
  for (const FitRow& row : fit.rows) {
    if (row.refused.empty()) continue;
    const bool any_batch = !row.largest && !row.least;
    const std::string why = fmt::format(
        "{}: {}", any_batch ? "" : fmt::format(" with train.micro_batch={}", fit.given_micro_batch), row.refused);
    auto found = std::ranges::find(rows_of, why, &std::pair<std::string, std::string>::first);
    if (found == rows_of.end()) found = rows_of.insert(rows_of.end(), {why, ""});
    found->second +=
        fmt::format("{}{} {}", found->second.empty() ? "" : ", ", row.strategy.name, config::name_of(row.recompute));
  }
  std::string text;
  for (const auto& [why, rows] : rows_of) text += fmt::format("refused{}\n  ({})\n", why, rows);
  return text;
}

std::string table_text(const Fit& fit) {
  std::string text =
      fmt::format("{:<20} | {:^37} | {:^44}\n", "", fmt::format("train.micro_batch={}", fit.given_micro_batch),
                  "the largest micro-batch that fits");
  text +=
      fmt::format("{:<9} {:<10} | {:>10} {:>4} {:>10} {:>10} | {:>11} {:>10} {:>10} {:>10}\n", "strategy", "recompute",
                  "peak", "fits", "shard_size", "tokens/s", "micro_batch", "peak", "shard_size", "tokens/s");
  for (const FitRow& row : fit.rows) {
    text += fmt::format("{:<9} {:<10} | ", row.strategy.name, config::name_of(row.recompute));
    text += row.given
                ? fmt::format("{:>10} {:>4} {:>10} {:>10} | ", bytes_text(static_cast<double>(row.given->peak_bytes)),
                              row.given->missing_bytes == 0 ? "yes" : "no", shard_text(fit, row, *row.given),
                              recorder::short_count(row.given->tokens_per_s))
                : fmt::format("{:>10} {:>4} {:>10} {:>10} | ", "refused", "", "", "");
    text += row.largest
                ? fmt::format("{:>11} {:>10} {:>10} {:>10}\n",
                              (row.largest->micro_batch == kMostFitSamples ? ">= " : "") +
                                  std::to_string(row.largest->micro_batch),
                              bytes_text(static_cast<double>(row.largest->peak_bytes)),
                              shard_text(fit, row, *row.largest), recorder::short_count(row.largest->tokens_per_s))
                : fmt::format("{:>11}\n", row.least ? "none" : "refused");
  }
  return text + refusals_text(fit);
}

}  // namespace

std::string to_json(const Fit& fit) {
  Json rows = Json::array();
  for (const FitRow& row : fit.rows) rows.push_back(row_json(row));
  const auto row_or_null = [&](int i) { return i < 0 ? Json(nullptr) : rows[static_cast<std::size_t>(i)]; };
  Json nearest = nullptr;
  if (fit.nearest >= 0) {
    const FitRow& row = row_at(fit, fit.nearest);
    nearest = {{"strategy", config::name_of(row.strategy)}, {"recompute", config::name_of(row.recompute)},
               {"micro_batch", row.least->micro_batch},     {"shard_size", row.least->shard_size},
               {"peak_bytes", row.least->peak_bytes},       {"missing_bytes", row.least->missing_bytes}};
  }
  return Json{{"model", Json::parse(fit.model_json)},
              {"dtype", config::name_of(fit.dtype)},
              {"accum", fit.accum},
              {"global_batch", fit.global_batch},
              {"ranks", fit.ranks},
              {"shard_size", fit.shard_size},
              {"device", fit.machine.device},
              {"cores", fit.machine.cores},
              {"ranks_per_node", std::min(fit.machine.ranks_per_node, fit.ranks)},
              {"memory_bytes", fit.memory_bytes},
              {"given_micro_batch", fit.given_micro_batch},
              {"rows", rows},
              {"best_given", row_or_null(fit.best_given)},
              {"best", row_or_null(fit.best)},
              {"nearest", nearest}}
      .dump(2, ' ', false, Json::error_handler_t::replace);  // a refusal may name a path of any bytes
}

std::string to_text(const Fit& fit) {
  std::string text =
      fmt::format("{}\n{} of {}{}; tokens/s are estimates for {}\n\n", fit.subject,
                  recorder::counted(fit.ranks, "rank"), bytes_text(static_cast<double>(fit.memory_bytes)),
                  fit.machine.device == "cpu" ? ""
                  : fit.ranks > 1             ? ", of which CUDA and NCCL take a part"
                                              : ", of which CUDA takes a part",
                  planner::device_text(fit.machine));
  text += table_text(fit) + "\n";
  if (fit.nearest >= 0) {
    const FitRow& row = row_at(fit, fit.nearest);
    return text + fmt::format("nothing fits; the nearest: {}\n  takes {}, {} too much",
                              options_of(fit, row, *row.least), bytes_text(static_cast<double>(row.least->peak_bytes)),
                              bytes_text(static_cast<double>(row.least->missing_bytes)));
  }
  const FitRow& best = row_at(fit, fit.best);
  text += fmt::format("fastest with train.micro_batch={}: {}\n", fit.given_micro_batch,
                      fit.best_given < 0
                          ? "nothing fits"
                          : options_of(fit, row_at(fit, fit.best_given), *row_at(fit, fit.best_given).given));
  return text + fmt::format("fastest of all:                   {}", options_of(fit, best, *best.largest));
}

}  // namespace lt
