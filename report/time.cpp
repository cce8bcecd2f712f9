// Shows where a run's time goes: speed, activities, collectives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/findings.h"
#include "report/sections.h"
#include "report/segments.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr const char* kPhasesExplained =
    "At any moment a rank is in exactly one phase. Forward, backward and recompute (forward passes repeated during the "
    "backward pass, to save memory) compute. Gather exposed and reduce exposed wait for parameters and for reduced "
    "gradients. Data waits for the batch. Optimizer is gradient norm, clipping and update. Checkpoint is the save "
    "after the step before; the save at the end of a run belongs to no step. Other is the rest, which includes waiting "
    "for "
    "the times that the ranks exchange.";
constexpr const char* kCollectivesExplained =
    "The mean step of rank 0, over the same steps. The gathers include two small ones, for the losses and for the "
    "gradient norm. Sent counts the bytes that this rank sends. In flight is the time from the start of a call to its "
    "completion, and exposed is the time that computation waited for it. Calls overlap each other and computation, so "
    "times in flight may add up to more than the step. Bus bandwidth is sent bytes / time in flight, in GB/s (10^9 "
    "bytes). It is what the transfers achieved beside computation, not the limit of the link, which the command bench "
    "comm measures. Transfers that share processors with computation also slow it; that counts as computation.";

// Splits the exposed time by cause. costs_of() has subtracted the part that a late rank explains from gather and
// reduce.
std::string exposed_text(const Costs& c) {
  const std::string all = fixed_text(c.communication() + c.straggler, 2);
  const std::string late =
      "because a rank was late (the own time of each step's slowest rank, less the mean of the ranks)";
  if (!(c.communication() > 0)) return fmt::format("Gather and reduce exposed are {} ms together, all {}.", all, late);
  return fmt::format(
      "Gather and reduce exposed are {} ms together: about {} ms {}, and about {} ms because of the transfers "
      "themselves.",
      all, fixed_text(c.straggler, 2), late, fixed_text(c.communication(), 2));
}

Figure speed_figure(const RunData& run) {
  LineChart chart{.title = "Speed", .x_label = "step", .y_label = "tokens/s", .series = {}, .from_zero = true};
  std::vector<Segment> segments = run.segments;
  if (segments.empty()) segments.push_back({run.steps.front().step, run.steps.back().step, {}});
  for (const Segment& segment : segments) {  // one line each
    Series& line = chart.series.emplace_back();
    line.name = has_segments(run) ? "steps " + range_text(segment) : "tokens/s, all ranks";
    for (const StepRow* step : steps_of(run, segment)) {
      line.x.push_back(step->step);
      line.y.push_back(step->tokens_per_s);
    }
  }
  return {chart.title, figure(chart)};
}

Figure breakdown_figure(const RunData& run, const std::vector<std::pair<std::string, double>>& activities) {
  const auto measured = measured_steps(run);
  StackedChart chart{.title = "Where each step's time goes",
                     .x_label = "step",
                     .y_label = "ms per step (rank 0)",
                     .unit = "ms",
                     .names = {},
                     .x = column(measured, &StepRow::step),
                     .values = {}};
  for (const auto& [name, ms] : activities) {
    chart.names.push_back(spaced(name));
    auto& values = chart.values.emplace_back();
    for (const StepRow* step : measured) {
      const auto found = std::find_if(step->breakdown_ms.begin(), step->breakdown_ms.end(),
                                      [&name = name](const auto& activity) { return activity.first == name; });
      values.push_back(found == step->breakdown_ms.end() || !(found->second > 0) ? 0 : found->second);
    }
  }
  return {chart.title, figure(chart)};
}

Table collectives(const std::vector<CommRow>& rows) {
  Table t{.header = {"collective", "calls", "sent", "in flight ms", "exposed ms", "bus GB/s"}, .rows = {}};
  // Few digits keep the table narrow enough for a phone.
  const auto calls = [](const CommRow& c) { return fmt::format("{:g}", std::round(10 * c.calls) / 10); };
  CommRow all;
  for (const CommRow& c : rows) {
    t.rows.push_back({spaced(c.op), calls(c), bytes_text(c.bytes), ms_text(c.busy_ms), ms_text(c.exposed_ms),
                      rate_text(c.busbw_gbps)});
    all.calls += c.calls, all.bytes += c.bytes, all.busy_ms += c.busy_ms, all.exposed_ms += c.exposed_ms;
  }
  if (rows.size() > 1) {
    t.rows.push_back({"all", calls(all), bytes_text(all.bytes), ms_text(all.busy_ms), ms_text(all.exposed_ms), ""});
  }
  return t;
}

}  // namespace

Table shares(const std::string& what, const std::string& unit,
             const std::vector<std::pair<std::string, double>>& activities, std::string (*text)(double)) {
  double total = 0;
  for (const auto& activity : activities) total += activity.second;
  Table t{.header = {what, unit, "share"}, .rows = {}, .colored = true};
  for (const auto& [name, value] : activities) {
    t.rows.push_back({spaced(name), text(value), percent_text(total > 0 ? value / total : 0, 1)});
    t.bars.push_back(total > 0 ? value / total : 0);
  }
  t.rows.push_back({"all", text(total), ""});
  t.bars.push_back(0);
  return t;
}

void add_time(Document& document, const RunData& run, int level) {
  if (run.steps.empty()) return;
  const auto steady = steady_steps(run);
  const auto activities = mean_activities(steady);
  document.add(Heading{level, "Time"});
  document.add(speed_figure(run));
  document.add(breakdown_figure(run, activities));
  if (activities.empty()) return;
  document.add(Paragraph{kPhasesExplained});
  const bool all_ranks = run.ranks > 1 && has_breakdown_over_ranks(steady);
  const char* unit = all_ranks ? "ms, mean over ranks" : run.ranks > 1 ? "ms, mean of rank 0" : "ms, mean";
  document.add(shares("phase of a step", unit, activities, ms_cell));
  if (const Costs costs = costs_of(run); costs.straggler > 0) document.add(Paragraph{exposed_text(costs)});
}

void add_collectives(Document& document, const RunData& run, int level) {
  const auto comm = mean_comm(steady_steps(run));
  if (comm.empty()) return;
  document.add(Heading{level, "Collectives"});
  document.add(Paragraph{kCollectivesExplained});
  document.add(collectives(comm));
}

}  // namespace lt::report
