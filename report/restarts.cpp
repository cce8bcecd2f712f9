// Shows a run's restarts by a supervisor, with the cost of each, and makes a finding of them if they cost enough.
#include <fmt/format.h>

#include <cmath>

#include "record/short_text.h"
#include "report/evidence.h"
#include "report/sections.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr double kWorthSaying = 0.02;  // share of the run's time

double zero_if_missing(double value) { return std::isfinite(value) ? value : 0; }

struct RestartCost {
  double down_s = 0, lost_steps = 0;
};

RestartCost restart_cost(const RunData& run) {
  RestartCost cost;
  for (const RestartRow& row : run.restarts) {
    cost.down_s += zero_if_missing(row.total_s);
    cost.lost_steps += zero_if_missing(row.lost_steps);
  }
  return cost;
}

}  // namespace

void add_restarts(Document& document, const RunData& run, int level) {
  if (run.restarts.empty()) return;
  Table table{
      .header = {"attempt", "cause", "resumed after step", "steps lost", "down s", "notice s", "backoff s", "start s"},
      .rows = {},
      .text = true};
  for (const RestartRow& row : run.restarts) {
    table.rows.push_back({whole_text(row.attempt), row.cause, whole_text(row.step), whole_text(row.lost_steps),
                          fixed_text(row.total_s, 2), fixed_text(row.notice_s, 2), fixed_text(row.backoff_s, 2),
                          fixed_text(row.start_s, 2)});
  }
  const RestartCost cost = restart_cost(run);
  document.add(Heading{level, "Restarts"});
  document.add(Paragraph{fmt::format(
      "The run was restarted {}: {} s down, {} repeated. Notice lasts from the end of the first rank until no process "
      "of the attempt is left. Backoff is the wait after attempts that saved nothing. Start lasts from there to the "
      "end "
      "of the first step.",
      run.restarts.size() == 1 ? "once" : fmt::format("{} times", run.restarts.size()), fixed_text(cost.down_s, 1),
      counted(static_cast<Size>(cost.lost_steps), "step"))});
  document.add(table);
}

void add_restarts(Findings& findings, const Evidence& e) {
  if (e.run.restarts.empty()) return;
  const RestartCost cost = restart_cost(e.run);
  const double again_s = cost.lost_steps * zero_if_missing(e.costs.step_ms) / 1e3;
  const double share = (cost.down_s + again_s) / (e.summary.train_s + cost.down_s + again_s);
  if (!(share >= kWorthSaying)) return;
  std::string text = fmt::format("{} took {} of the run's time: {:.1f} s down, and {:.1f} s for {} that were repeated.",
                                 counted(static_cast<Size>(e.run.restarts.size()), "restart"), percent_text(share),
                                 cost.down_s, again_s, counted(static_cast<Size>(cost.lost_steps), "step"));
  if (again_s > cost.down_s)
    text += fmt::format(" {}; with more frequent saves a restart loses fewer steps.", e.setting("checkpoint.every"));
  findings.push_back({"restarts", share, "Restarts", text});
}

}  // namespace lt::report
