// Shows a run's restarts by a supervisor, with the cost of each, and makes a finding of them if they cost enough.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "record/short_text.h"
#include "report/evidence.h"
#include "report/sections.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr double kWorthSaying = 0.02;  // share of the run's time

double zero_if_missing(double value) { return std::isfinite(value) ? value : 0; }

struct RestartCost {
  double down_s = 0, notice_s = 0, backoff_s = 0, start_s = 0, lost_steps = 0;
  double again_s = 0;  // for the steps that were repeated
  double all_s() const { return down_s + again_s; }
};

// The mean time of the steps that a restart repeated, in seconds. A run may have gone on at another speed since.
double repeated_step_s(const RunData& run, const RestartRow& row) {
  std::vector<double> ms;
  for (const StepRow& step : run.steps) {
    if (step.step > row.step && step.step <= row.step + row.lost_steps) ms.push_back(step.step_ms);
  }
  const double repeated = mean(ms);
  return zero_if_missing(std::isnan(repeated) ? mean(column(steady_steps(run), &StepRow::step_ms)) : repeated) / 1e3;
}

RestartCost restart_cost(const RunData& run) {
  RestartCost cost;
  for (const RestartRow& row : run.restarts) {
    cost.down_s += zero_if_missing(row.total_s);
    cost.notice_s += zero_if_missing(row.notice_s);
    cost.backoff_s += zero_if_missing(row.backoff_s);
    cost.start_s += zero_if_missing(row.start_s);
    if (!(row.lost_steps > 0)) continue;
    cost.lost_steps += row.lost_steps;
    cost.again_s += row.lost_steps * repeated_step_s(run, row);
  }
  return cost;
}

// What would make restarts cheaper, by their largest cost.
std::string advice(const RestartCost& cost, const Evidence& e) {
  if (cost.again_s > cost.down_s) {
    return fmt::format(" {}; with more frequent saves a restart loses fewer steps.", e.save_interval());
  }
  if (cost.start_s > cost.notice_s + cost.backoff_s) {
    return fmt::format(
        " Of the time down, {:.1f} s are starts: the launcher, reading the checkpoint and the first step; the event "
        "start says how long each took. {}: a copy in the hosts' memory need not be read from disk.",
        cost.start_s, e.setting("checkpoint.memory_every"));
  }
  if (cost.backoff_s > cost.notice_s) {
    return fmt::format(" Of the time down, {:.1f} s are waits after attempts that saved nothing; {}.", cost.backoff_s,
                       e.save_interval());
  }
  if (!(cost.notice_s > 0)) return {};
  return fmt::format(" Of the time down, {:.1f} s passed until every process of the ended attempt was gone.",
                     cost.notice_s);
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
  document.add(Heading{level, "Restarts"});
  document.add(
      Paragraph{"Notice lasts from the end of the first rank until no process of the attempt is left. Backoff is the "
                "wait after attempts that saved nothing. Start lasts from there to the end of the first step."});
  document.add(table);
}

void add_restarts(Findings& findings, const Evidence& e) {
  if (e.run.restarts.empty()) return;
  const RestartCost cost = restart_cost(e.run);
  const double run_s = e.summary.train_s + cost.all_s(), share = cost.all_s() / run_s;
  if (!(share >= kWorthSaying)) return;
  const std::string text = fmt::format(
      "{} took {:.1f} of {:.1f} s of steps, repeated steps and time down ({}): {:.1f} s down, and {:.1f} s for {} that "
      "were repeated.{}",
      recorder::counted(static_cast<Size>(e.run.restarts.size()), "restart"), cost.all_s(), run_s, percent_text(share),
      cost.down_s, cost.again_s, recorder::counted(static_cast<Size>(cost.lost_steps), "step"), advice(cost, e));
  findings.push_back({"restarts", share, "Restarts", text});
}

std::string restarts_note(const RunData& run) {
  if (run.restarts.empty()) return {};
  const RestartCost cost = restart_cost(run);
  return fmt::format("The run was restarted {}: {} s down, {} repeated.",
                     run.restarts.size() == 1 ? "once" : fmt::format("{} times", run.restarts.size()),
                     fixed_text(cost.down_s, 1), recorder::counted(static_cast<Size>(cost.lost_steps), "step"));
}

double seconds_of_restarts(const RunData& run) { return restart_cost(run).all_s(); }

}  // namespace lt::report
