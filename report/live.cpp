// Computes the state of runs. Invariant: rates cover only the last 20 steady steps, so changes are visible.
#include "report/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/saved.h"
#include "report/segments.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kRecent = 20;  // steps
constexpr double kSilentS = 10;      // without a line, at least; and five steps
constexpr double kRestartS = 60;     // after a stop by a signal, in which a supervisor starts a run again

std::vector<const StepRow*> recent_steps(const RunData& run) {
  auto steps = steady_steps(run);
  if (steps.size() > kRecent) steps.erase(steps.begin(), steps.end() - kRecent);
  return steps;
}

// Whether no line came for ten seconds and five steps. False before the first step.
bool silent(const RunData& run, double step_ms) {
  const double usual_s = std::isfinite(step_ms) ? 5 * step_ms / 1e3 : 0;
  return !run.steps.empty() && run.read_at - run.changed_at > std::max(kSilentS, usual_s);
}

std::string left(const RunData& run, double step_ms, double steps) {
  if (!end_of(run).empty() || silent(run, step_ms) || !(steps >= 0)) return kDash;
  return duration_text(steps * step_ms / 1e3);
}

std::string last_checkpoint(const RunData& run) {
  const double saved = last_recorded(run);
  return std::isnan(saved) ? "none" : "step " + whole_text(saved);
}

std::string slowest(const std::vector<const StepRow*>& steps) {
  const auto often = slowest_ranks(steps);
  if (often.empty()) return kDash;
  return fmt::format("rank {}: {} of {}", often.front().first, often.front().second, steps.size());
}

}  // namespace

std::string state_of(const RunData& run) {
  const std::string reason = end_of(run);
  const bool is_whole = steps_done(run) >= config_number(run, "train.steps");
  if (reason == "steps" || (!reason.empty() && reason != kNotFinite && is_whole)) return "complete";
  if (reason.starts_with(kSignal)) return "stopped by " + reason.substr(kSignal.size());
  if (reason == "max_minutes") return "stopped at the limit of train.max_minutes";
  if (reason == "program") return "stopped by the program";
  if (!reason.empty()) return "stopped: " + reason;
  if (!run.last_error.empty()) return "failed";
  if (run.steps.empty()) return "no step yet";
  const double step_ms = mean(column(recent_steps(run), &StepRow::step_ms));
  return silent(run, step_ms) ? "no new line since " + time_text(run.changed_at) : "running";
}

Table now(const std::vector<RunData>& runs) {
  Table t{.header = {"run", "state", "step", "tokens/s", "left", "checkpoint", "slowest", "restarts"},
          .rows = {},
          .text = true};
  for (const RunData& run : runs) {
    const auto steps = recent_steps(run);
    const double step_ms = mean(column(steps, &StepRow::step_ms)), last = config_number(run, "train.steps");
    const double done = steps_done(run);
    t.rows.push_back({run.name, state_of(run), whole_text(done) + (last > 0 ? " of " + whole_text(last) : ""),
                      count_text(median(column(steps, &StepRow::tokens_per_s))), left(run, step_ms, last - done),
                      last_checkpoint(run), run.ranks > 1 ? slowest(steps) : kDash,
                      run.restarts.empty()
                          ? "none"
                          : fmt::format("{}, the last after: {}", run.restarts.size(), run.restarts.back().cause)});
  }
  return t;
}

bool all_ended(const std::vector<RunData>& runs) {
  return std::all_of(runs.begin(), runs.end(), [](const RunData& run) {
    const std::string reason = end_of(run);
    return !reason.empty() && (!reason.starts_with(kSignal) || run.read_at - run.changed_at > kRestartS);
  });
}

}  // namespace lt::report
