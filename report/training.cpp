// Shows a run's training: gradient norm, learning rate, the progress over the steps, and evaluations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/curves.h"
#include "report/sections.h"
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
                      std::isnan(s.lr) ? "–" : fmt::format("{:.2e}", s.lr), ms_text(s.step_ms),
                      count_text(s.tokens_per_s)});
  }
  return t;
}

Table evaluations(const RunData& run) {
  const bool nats = *loss_unit(run, "nats", "") != '\0';  // only then is there a perplexity
  Table t{.header = {"evaluation after step", "loss", "batches", "tokens"}, .rows = {}};
  if (nats) t.header.insert(t.header.begin() + 2, "perplexity");
  for (std::size_t i : spread(run.evals.size())) {
    const Event& e = run.evals[i];
    auto& row = t.rows.emplace_back(std::vector<std::string>{whole_text(e.step), fixed_text(e.loss, 4)});
    if (nats) row.push_back(fixed_text(std::exp(e.loss), 2));
    row.push_back(event_field(e, "batches"));
    row.push_back(event_field(e, "tokens"));
  }
  return t;
}

}  // namespace

void add_training(Document& document, const RunData& run, int level) {
  if (run.steps.empty() && run.evals.empty()) return;
  document.add(Heading{level, "Training"});
  if (level <= 2) {  // a comparison has the curves of all runs in common charts
    for (const Figure& drawn : training_figures({&run})) document.add(drawn);
  }
  document.add(progress(run));
  document.add(evaluations(run));
}

}  // namespace lt::report
