// Key figures of a run and its bottleneck in words.
#include "record/report_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "record/report_text.h"

namespace lt::report {
namespace {

std::string config_text(const RunData& run, const std::string& key) {
  const auto found = run.config.find(key);
  if (found == run.config.end()) return "–";
  std::string text = found->second;
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return text.empty() ? "–" : text;
}

double largest(const RunData& run, double StepRow::*member) {
  double result = kMissing;
  for (const StepRow& step : run.steps) result = std::fmax(result, step.*member);
  return result;
}

double part_ms(const std::vector<std::pair<std::string, double>>& parts, const char* name) {
  for (const auto& [part, ms] : parts) {
    if (part == name) return ms;
  }
  return 0;
}

std::string imbalance_text(const std::vector<const StepRow*>& steps) {
  const double low = mean(column(steps, &StepRow::step_ms_min)), high = mean(column(steps, &StepRow::step_ms_max));
  if (!(high > 0) || high - low < 0.03 * high) return {};
  std::vector<std::pair<double, int>> counts;  // rank, steps in which it was slowest
  for (const StepRow* step : steps) {
    if (std::isnan(step->slowest)) continue;
    auto found = std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == step->slowest; });
    if (found == counts.end()) found = counts.insert(counts.end(), {step->slowest, 0});
    ++found->second;
  }
  std::string text = fmt::format(" The slowest rank takes {:.1f}% longer than the fastest", 100 * (high / low - 1));
  if (!counts.empty()) {
    const auto worst = *std::max_element(counts.begin(), counts.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    text += fmt::format("; it is rank {:g} in {} of the steps", worst.first,
                        percent_text(static_cast<double>(worst.second) / static_cast<double>(steps.size())));
  }
  return text + ".";
}

}  // namespace

Summary summarize(const RunData& run) {
  Summary s;
  s.model = config_text(run, "model.preset");
  if (s.model == "–") s.model = config_text(run, "model.family");
  s.strategy = config_text(run, "parallel.strategy");
  s.recompute = config_text(run, "parallel.recompute");
  s.dtype = config_text(run, "train.dtype");
  s.ranks = run.ranks;
  s.predicted_peak_bytes = run.predicted_peak_bytes;
  if (!run.evals.empty()) s.eval_loss = run.evals.back().loss;
  for (const Event& eval : run.evals) {
    if (std::isnan(eval.loss) || eval.loss >= s.best_eval_loss) continue;
    s.best_eval_loss = eval.loss;
    s.best_eval_step = eval.step;
  }
  if (run.steps.empty()) return s;
  const auto steady = steady_steps(run);
  const auto per_step = [&](double StepRow::*member) { return median(column(steady, member)); };
  s.steps = run.steps.back().step;
  s.first_loss = run.steps.front().loss;
  std::vector<double> last, times, tokens;
  for (const StepRow& step : run.steps) {
    times.push_back(step.step_ms);
    tokens.push_back(step.tokens);
    if (&run.steps.back() - &step < 10) last.push_back(step.loss);
  }
  s.last_loss = mean(last);
  s.tokens = mean(tokens) * static_cast<double>(tokens.size());
  s.train_s = mean(times) * static_cast<double>(times.size()) / 1e3;
  s.step_ms = per_step(&StepRow::step_ms);
  s.tokens_per_s = per_step(&StepRow::tokens_per_s);
  s.tokens_per_s_per_rank = per_step(&StepRow::tokens_per_s_per_rank);
  s.mfu = per_step(&StepRow::mfu);
  s.memory_peak_bytes = largest(run, &StepRow::memory_peak_bytes);
  s.memory_outside_bytes = largest(run, &StepRow::memory_outside_bytes);
  return s;
}

std::string bottleneck_text(const RunData& run) {
  const auto steady = steady_steps(run);
  const auto parts = mean_breakdown(steady);
  double total = 0;
  for (const auto& part : parts) total += part.second;
  if (!(total > 0)) return "The metrics hold no step breakdown, so where the time goes is not known.";
  const auto top =
      *std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto share = [&](const char* name) { return part_ms(parts, name) / total; };
  std::string name = top.first;
  std::replace(name.begin(), name.end(), '_', ' ');
  std::string text = fmt::format("The largest part of a step is {}: {:.1f} of {:.1f} ms ({}).", name, top.second, total,
                                 percent_text(top.second / total));
  const double exposed = share("gather_exposed") + share("reduce_exposed");
  if (exposed >= 0.01) {
    text += fmt::format(" Communication that no computation hides takes {}{}.", percent_text(exposed),
                        exposed > 0.2 ? ": larger micro-batches, accumulation or fewer shards would help most" : "");
  } else if (run.ranks > 1) {
    text += " Communication is hidden behind computation: less than 1% of a step waits for it.";
  }
  if (share("data") > 0.02) text += fmt::format(" Waiting for data takes {}.", percent_text(share("data")));
  if (share("recompute") > 0.02) {
    text += fmt::format(" Recomputation takes {}, the price of the memory that it saves.",
                        percent_text(share("recompute")));
  }
  if (share("checkpoint") > 0.02)
    text += fmt::format(" Saving checkpoints takes {}.", percent_text(share("checkpoint")));
  return run.ranks > 1 ? text + imbalance_text(steady) : text;
}

}  // namespace lt::report
