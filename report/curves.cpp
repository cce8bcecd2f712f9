// Draws the curves of training. Invariant: a smoothed line is drawn over the unsmoothed one, and a note states the
// window.
#include "report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "report/summary.h"
#include "report/svg_chart.h"

namespace lt::report {
namespace {

constexpr std::size_t kSmoothFrom = 200;  // steps; shorter curves are drawn as they are

// What an x axis shows after each step of a run.
struct Axis {
  const char* label;
  double StepRow::*sum;  // a field that is summed over the steps; none: the number of the step
  double unit;
  bool whole;
};

constexpr Axis kSteps = {"step", nullptr, 1, true};

// Where the steps of a run end on an axis.
struct Places {
  Places(const RunData& run, const Axis& axis) : run(run), by_number(axis.sum == nullptr) {
    double sum = 0;
    for (const StepRow& row : run.steps) {
      if (!by_number && std::isfinite(row.*axis.sum)) sum += row.*axis.sum / axis.unit;
      x.push_back(by_number ? row.step : sum);
    }
  }

  // What lies before the first recorded step is at the axis' start.
  double after(double step) const {
    if (by_number) return step;
    const auto next = std::upper_bound(run.steps.begin(), run.steps.end(), step,
                                       [](double at, const StepRow& row) { return at < row.step; });
    return next == run.steps.begin() ? 0 : x[static_cast<std::size_t>(next - run.steps.begin() - 1)];
  }

  const RunData& run;
  const bool by_number;
  std::vector<double> x;
};

// Tokens have an axis of their own only if they are not the same multiple of the step in all runs.
std::vector<Axis> axes_of(const std::vector<const RunData*>& runs) {
  std::set<double> tokens;
  double longest_ms = 0;
  for (const RunData* run : runs) {
    double ms = 0;
    for (const StepRow& row : run->steps) {
      if (std::isfinite(row.tokens)) tokens.insert(row.tokens);
      if (std::isfinite(row.step_ms)) ms += row.step_ms;
    }
    longest_ms = std::max(longest_ms, ms);
  }
  std::vector<Axis> axes = {kSteps};
  if (tokens.size() > 1 || runs.size() == 1) axes.push_back({"tokens", &StepRow::tokens, 1, true});
  if (longest_ms < 180e3) {
    axes.push_back({"seconds in steps", &StepRow::step_ms, 1e3, false});
  } else if (longest_ms < 3 * 3600e3) {
    axes.push_back({"minutes in steps", &StepRow::step_ms, 60e3, false});
  } else {
    axes.push_back({"hours in steps", &StepRow::step_ms, 3600e3, false});
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
  Series series{.name = name, .x = Places(run, axis).x, .y = values_of(run, member)};
  const std::size_t window = window_of(series.y.size());
  if (smooth && window > 1) series.smooth = smoothed(series.y, window);
  return series;
}

Series evaluations(const RunData& run, const std::string& name, const Axis& axis) {
  Series series{.name = name, .x = {}, .y = {}, .dots = true};
  const Places places(run, axis);
  for (const Event& event : run.evals) {
    series.x.push_back(places.after(event.step));
    series.y.push_back(event.loss);
  }
  return series;
}

constexpr const char* kRestarts = "Dotted: a restart.";

// Where restarts went on: after the step whose state was loaded.
std::vector<double> restarts(const std::vector<const RunData*>& runs, const Axis& axis) {
  std::vector<double> marks;
  for (const RunData* run : runs) {
    const Places places(*run, axis);
    for (const RestartRow& row : run->restarts) {
      if (std::isfinite(row.step)) marks.push_back(places.after(row.step));  // otherwise the attempt never started
    }
  }
  return marks;
}

std::string smoothing_note(const std::vector<const RunData*>& runs) {
  std::size_t widest = 1, narrowest = std::numeric_limits<std::size_t>::max();
  for (const RunData* run : runs) {
    widest = std::max(widest, window_of(run->steps.size()));
    narrowest = std::min(narrowest, window_of(run->steps.size()));
  }
  if (widest == 1) return {};
  return fmt::format("Line: the mean of {}{} steps around each. Pale: every step.", narrowest == widest ? "" : "up to ",
                     widest);
}

// One chart for each axis. `add` adds the curves of one run on an axis.
template <class Add>
Figure chart_of(const char* title, const char* y_label, const std::vector<const RunData*>& runs,
                const std::vector<Axis>& axes, const std::string& note, Add add) {
  std::vector<LineChart> charts;
  for (const Axis& axis : axes) {
    LineChart& chart = charts.emplace_back(LineChart{.title = title,
                                                     .x_label = axis.label,
                                                     .y_label = y_label,
                                                     .whole_x = axis.whole,
                                                     .marks = restarts(runs, axis),
                                                     .marks_mean = kRestarts});
    for (const RunData* run : runs) add(chart.series, *run, axis);
  }
  return {title, figure(charts, note)};
}

}  // namespace

Figure loss_figure(const RunData& run, bool all_axes) {
  const auto add = [](std::vector<Series>& series, const RunData& of, const Axis& axis) {
    series.push_back(curve(of, "training", axis, &StepRow::loss, true));
    series.push_back(evaluations(of, "evaluation", axis));
  };
  return chart_of("Loss", loss_unit(run, "nats per token", ""), {&run},
                  all_axes ? axes_of({&run}) : std::vector{kSteps}, smoothing_note({&run}), add);
}

std::vector<Figure> training_figures(const std::vector<const RunData*>& runs) {
  const bool one = runs.size() == 1;
  const std::vector<Axis> axes = axes_of(runs);
  const std::string note = smoothing_note(runs);
  const auto member = [one](const char* name, double StepRow::*field, bool smooth) {
    return [=](std::vector<Series>& series, const RunData& run, const Axis& axis) {
      series.push_back(curve(run, one ? name : run.name, axis, field, smooth));
    };
  };
  std::vector<Figure> figures;
  if (!one) {
    const char* unit = loss_unit(*runs[0], "nats per token", "");
    figures.push_back(chart_of("Training loss", unit, runs, axes, note, member("", &StepRow::loss, true)));
    figures.push_back(chart_of("Evaluation loss", unit, runs, axes, "",
                               [](std::vector<Series>& series, const RunData& run, const Axis& axis) {
                                 series.push_back(evaluations(run, run.name, axis));
                               }));
  }
  figures.push_back(chart_of("Gradient norm", "before clipping", runs, axes, note,
                             member("gradient norm", &StepRow::grad_norm, true)));
  figures.push_back(chart_of("Learning rate", "", runs, axes, "", member("learning rate", &StepRow::lr, false)));
  return figures;
}

}  // namespace lt::report
