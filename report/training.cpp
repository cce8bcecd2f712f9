// Shows a run's training: losses of training and evaluation, and the progress over the steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/sections.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kRows = 12;

// At most kRows of `count` indices, evenly spread, including the first and the last.
std::vector<std::size_t> spread(std::size_t count) {
  const std::size_t shown = std::min(count, kRows);
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < shown; ++i) chosen.push_back(shown == 1 ? 0 : i * (count - 1) / (shown - 1));
  return chosen;
}

Table progress(const RunData& run) {
  Table t{.header = {"step", "loss", "norm", "lr", "ms", "tokens/s"}, .rows = {}};
  for (std::size_t i : spread(run.steps.size())) {
    const StepRow& s = run.steps[i];
    t.rows.push_back({whole_text(s.step), fixed_text(s.loss, 4), fixed_text(s.grad_norm, 3),
                      std::isnan(s.lr) ? "–" : fmt::format("{:.2e}", s.lr), fixed_text(s.step_ms, 1),
                      count_text(s.tokens_per_s)});
  }
  return t;
}

Table evaluations(const RunData& run) {
  Table t{.header = {"evaluation after step", "loss", "perplexity", "batches", "tokens"}, .rows = {}};
  for (std::size_t i : spread(run.evals.size())) {
    const Event& e = run.evals[i];
    t.rows.push_back({whole_text(e.step), fixed_text(e.loss, 4), fixed_text(std::exp(e.loss), 2),
                      event_field(e, "batches"), event_field(e, "tokens")});
  }
  return t;
}

}  // namespace

std::vector<double> all_of(const RunData& run, double StepRow::*member) {
  std::vector<double> values;
  for (const StepRow& step : run.steps) values.push_back(step.*member);
  return values;
}

void add_training(Document& document, const RunData& run, int level) {
  if (run.steps.empty() && run.evals.empty()) return;
  document.add(Heading{level, "Training"});
  document.add(loss_figure({&run}));
  document.add(progress(run));
  document.add(evaluations(run));
}

Figure loss_figure(const std::vector<const RunData*>& runs) {
  LineChart chart{.title = "Loss", .x_label = "step", .y_label = "nats per token", .series = {}, .from_zero = false};
  for (const RunData* run : runs) {
    Series eval{.name = runs.size() == 1 ? "evaluation" : run->name + ", evaluation", .x = {}, .y = {}, .dots = true};
    for (const Event& e : run->evals) {
      eval.x.push_back(e.step);
      eval.y.push_back(e.loss);
    }
    if (runs.size() == 1) {
      chart.series.push_back({"training", all_of(*run, &StepRow::step), all_of(*run, &StepRow::loss)});
      chart.series.push_back(eval);
    } else {
      chart.series.push_back({run->name, all_of(*run, &StepRow::step), all_of(*run, &StepRow::loss)});
    }
  }
  return {chart.title, figure(chart)};
}

}  // namespace lt::report
