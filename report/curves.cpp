// Draws the curves of training. Invariant: a smoothed line has the unsmoothed one below it, and a note says the window.
#include "report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/svg_chart.h"

namespace lt::report {
namespace {

constexpr std::size_t kSmoothFrom = 200;  // steps; shorter curves are drawn as they are

// What an x axis shows after each step of a run.
struct Axis {
  const char* label;
  double StepRow::*sum;  // a field that is summed over the steps; none: the number of the step
  double unit;
};

constexpr Axis kSteps = {"step", nullptr, 1};

std::vector<double> places(const RunData& run, const Axis& axis) {
  std::vector<double> x;
  double sum = 0;
  for (const StepRow& row : run.steps) {
    if (axis.sum != nullptr) sum += row.*axis.sum / axis.unit;
    x.push_back(axis.sum == nullptr ? row.step : sum);
  }
  return x;
}

// Tokens have an axis of their own only if they are not the same multiple of the step in all runs.
std::vector<Axis> axes_of(const std::vector<const RunData*>& runs) {
  std::set<double> tokens;
  double longest_ms = 0;
  for (const RunData* run : runs) {
    double ms = 0;
    for (const StepRow& row : run->steps) {
      tokens.insert(row.tokens);
      if (std::isfinite(row.step_ms)) ms += row.step_ms;
    }
    longest_ms = std::max(longest_ms, ms);
  }
  std::vector<Axis> axes = {kSteps};
  if (tokens.size() > 1 || runs.size() == 1) axes.push_back({"tokens", &StepRow::tokens, 1});
  if (longest_ms < 180e3) {
    axes.push_back({"seconds in steps", &StepRow::step_ms, 1e3});
  } else if (longest_ms < 3 * 3600e3) {
    axes.push_back({"minutes in steps", &StepRow::step_ms, 60e3});
  } else {
    axes.push_back({"hours in steps", &StepRow::step_ms, 3600e3});
  }
  return axes;
}

std::vector<double> values_of(const RunData& run, double StepRow::*member) {
  std::vector<double> values;
  for (const StepRow& row : run.steps) values.push_back(row.*member);
  return values;
}

std::size_t window_of(std::size_t steps) { return steps < kSmoothFrom ? 1 : steps / 100 / 2 * 2 + 1; }

Series curve(const RunData& run, const std::string& name, const Axis& axis, double StepRow::*member, bool smooth) {
  Series series{.name = name, .x = places(run, axis), .y = values_of(run, member)};
  const std::size_t window = window_of(series.y.size());
  if (smooth && window > 1) series.smooth = smoothed(series.y, window);
  return series;
}

// Evaluations stand where the step before them ended; those before the first recorded step at the axis' start.
Series evaluations(const RunData& run, const std::string& name, const Axis& axis) {
  Series series{.name = name, .x = {}, .y = {}, .dots = true};
  const std::vector<double> x = places(run, axis);
  for (const Event& event : run.evals) {
    const auto after = std::upper_bound(run.steps.begin(), run.steps.end(), event.step,
                                        [](double step, const StepRow& row) { return step < row.step; });
    const auto i = after - run.steps.begin();
    series.x.push_back(axis.sum == nullptr ? event.step : i == 0 ? 0 : x[static_cast<std::size_t>(i - 1)]);
    series.y.push_back(event.loss);
  }
  return series;
}

std::string smoothing_note(const std::vector<const RunData*>& runs) {
  std::size_t widest = 1, narrowest = kSmoothFrom;
  for (const RunData* run : runs) {
    widest = std::max(widest, window_of(run->steps.size()));
    narrowest = std::min(narrowest, window_of(run->steps.size()));
  }
  if (widest == 1) return {};
  return fmt::format("Line: the mean of {} steps around each. Pale: every step.",
                     narrowest == widest ? fmt::format("{}", widest) : fmt::format("up to {}", widest));
}

void add_losses(LineChart& chart, const RunData& run, const Axis& axis) {
  chart.series.push_back(curve(run, "training", axis, &StepRow::loss, true));
  chart.series.push_back(evaluations(run, "evaluation", axis));
}

}  // namespace

std::vector<Figure> training_figures(const std::vector<const RunData*>& runs) {
  const bool one = runs.size() == 1;
  std::vector<LineChart> loss, eval, norm, rate;
  for (const Axis& axis : axes_of(runs)) {
    loss.push_back({one ? "Loss" : "Training loss", axis.label, "nats per token", {}});
    eval.push_back({"Evaluation loss", axis.label, "nats per token", {}});
    norm.push_back({"Gradient norm", axis.label, "before clipping", {}});
    rate.push_back({"Learning rate", axis.label, "", {}});
    if (one) add_losses(loss.back(), *runs[0], axis);
    for (const RunData* run : runs) {
      norm.back().series.push_back(curve(*run, one ? "gradient norm" : run->name, axis, &StepRow::grad_norm, true));
      rate.back().series.push_back(curve(*run, one ? "learning rate" : run->name, axis, &StepRow::lr, false));
      if (one) continue;
      loss.back().series.push_back(curve(*run, run->name, axis, &StepRow::loss, true));
      eval.back().series.push_back(evaluations(*run, run->name, axis));
    }
  }
  const std::string note = smoothing_note(runs);
  return {{loss[0].title, figure(loss, note)},
          {eval[0].title, figure(eval)},
          {norm[0].title, figure(norm, note)},
          {rate[0].title, figure(rate)}};
}

std::vector<Figure> loss_figures(const RunData& run) {
  LineChart chart{"Loss", kSteps.label, "nats per token", {}};
  add_losses(chart, run, kSteps);
  return {{chart.title, figure(std::vector{chart}, smoothing_note({&run}))}};
}

}  // namespace lt::report
