// The ranks of a run compared: how long each part takes the fastest, the mean and the slowest, and who is slow how
// often.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/sections.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kRanksShown = 16;

Table parts_table(const std::vector<const StepRow*>& steady) {
  Table t{.header = {"ms a step", "min", "mean", "max", "rank of max"}, .rows = {}};
  const auto row = [&](const std::string& name, double low, double middle, double high, const std::string& rank) {
    if (std::isfinite(high))
      t.rows.push_back({name, fixed_text(low, 2), fixed_text(middle, 2), fixed_text(high, 2), rank});
  };
  const auto of = [&](double StepRow::*member) { return mean(column(steady, member)); };
  row("step", of(&StepRow::step_ms_min), of(&StepRow::step_ms_mean), of(&StepRow::step_ms_max), "");
  const auto slowest = slowest_ranks(steady);
  row("busy itself", of(&StepRow::own_ms_min), of(&StepRow::own_ms_mean), of(&StepRow::own_ms_max),
      slowest.empty() ? "" : std::to_string(slowest.front().first));
  // Of a part that took no time no rank was the slowest.
  for (const PartOverRanks& part : mean_parts_over_ranks(steady))
    row(spaced(part.name), part.min, part.mean, part.max, part.max > 0 ? whole_text(part.rank) : "");
  return t;
}

Table slowest_table(const std::vector<std::pair<int, int>>& slowest, std::size_t steps) {
  Table t{.header = {"slowest rank", "steps", "share"}, .rows = {}};
  for (std::size_t i = 0; i < std::min(slowest.size(), kRanksShown); ++i) {
    const double share = static_cast<double>(slowest[i].second) / static_cast<double>(steps);
    t.rows.push_back(
        {fmt::format("rank {}", slowest[i].first), std::to_string(slowest[i].second), percent_text(share, 1)});
    t.bars.push_back(share);
  }
  return t;
}

Figure busy_figure(const RunData& run) {
  LineChart chart{.title = "What the ranks are busy with themselves",
                  .x_label = "step",
                  .y_label = "ms a step",
                  .series = {},
                  .from_zero = true};
  const auto measured = measured_steps(run);
  const auto steps = column(measured, &StepRow::step);
  chart.series.push_back({"slowest rank", steps, column(measured, &StepRow::own_ms_max)});
  chart.series.push_back({"mean of the ranks", steps, column(measured, &StepRow::own_ms_mean)});
  chart.series.push_back({"fastest rank", steps, column(measured, &StepRow::own_ms_min)});
  return {chart.title, figure(chart)};
}

}  // namespace

void add_ranks(Document& document, const RunData& run, int level) {
  const auto steady = steady_steps(run);
  if (!(run.ranks > 1) || !std::isfinite(mean(column(steady, &StepRow::step_ms_max)))) return;
  document.add(Heading{level, "Ranks compared"});
  document.add(Paragraph{
      fmt::format("Ranks step together, so a slow one shows in what the others wait for. Busy itself is a rank's step "
                  "without the time "
                  "in which others blocked it; the rank that is longest busy is the slowest. Each number is the least, "
                  "mean or greatest "
                  "of the {:g} ranks, averaged over {} steps; the rank is the one that is greatest most often.",
                  run.ranks, steady.size())});
  document.add(parts_table(steady));
  document.add(busy_figure(run));
  document.add(slowest_table(slowest_ranks(steady), steady.size()));
}

}  // namespace lt::report
