// Compares the ranks of a run: each activity's minimum, mean and maximum over ranks, and how often each rank is slow.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/sections.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kRanksShown = 16;

Table activities_table(const std::vector<const StepRow*>& steady) {
  Table t{.header = {"ms per step", "min", "mean", "max", "rank of max"}, .rows = {}};
  const auto row = [&](const std::string& name, double low, double middle, double high, const std::string& rank) {
    if (std::isfinite(high))
      t.rows.push_back({name, fixed_text(low, 2), fixed_text(middle, 2), fixed_text(high, 2), rank});
  };
  const auto of = [&](double StepRow::*member) { return mean(column(steady, member)); };
  row("step", of(&StepRow::step_ms_min), of(&StepRow::step_ms_mean), of(&StepRow::step_ms_max), "");
  const auto slowest = slowest_ranks(steady);
  row("own time", of(&StepRow::own_ms_min), of(&StepRow::own_ms_mean), of(&StepRow::own_ms_max),
      slowest.empty() ? "" : std::to_string(slowest.front().first));
  // An activity that took no time has no slowest rank.
  for (const ActivityOverRanks& activity : mean_breakdown_over_ranks(steady))
    row(spaced(activity.name), activity.min, activity.mean, activity.max,
        activity.max > 0 ? whole_text(activity.rank) : "");
  return t;
}

Table ranks_table(const std::vector<const StepRow*>& steady, const std::vector<double>& own_ms) {
  Table t{.header = {"rank", "times slowest", "share"}, .rows = {}};
  if (!own_ms.empty()) t.header.insert(t.header.begin() + 1, "own ms");
  auto ranks = slowest_ranks(steady);
  for (int r = 0; r < static_cast<int>(own_ms.size()); ++r) {  // adds the ranks that were never the slowest
    const auto same = [r](const auto& entry) { return entry.first == r; };
    if (std::none_of(ranks.begin(), ranks.end(), same)) ranks.emplace_back(r, 0);
  }
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksShown); ++i) {
    const auto [rank, times] = ranks[i];
    const double share = static_cast<double>(times) / static_cast<double>(steady.size());
    auto& row = t.rows.emplace_back(std::vector<std::string>{fmt::format("rank {}", rank)});
    const auto index = static_cast<std::size_t>(rank);
    if (!own_ms.empty()) row.push_back(index < own_ms.size() ? fixed_text(own_ms[index], 2) : "–");
    row.push_back(std::to_string(times));
    row.push_back(percent_text(share, 1));
    t.bars.push_back(share);
  }
  if (ranks.size() > kRanksShown) {
    t.rows.emplace_back(t.header.size(), "")[0] = fmt::format("{} more", ranks.size() - kRanksShown);
    t.bars.push_back(0);
  }
  return t;
}

// Says whether a rank is slow in every step, and how uneven a single step is.
std::string verdict_text(const std::vector<const StepRow*>& steady, const std::vector<double>& own_ms) {
  const SlowestRank slowest = slowest_rank(steady);
  const double step = mean(column(steady, &StepRow::step_ms_mean));
  const auto [least, most] = std::minmax_element(own_ms.begin(), own_ms.end());
  const bool slow = is_slow(slowest, step, static_cast<double>(own_ms.size()));
  std::string text =
      slow ? fmt::format("Rank {} is slower than the others", slowest.rank) : "No rank is slow throughout";
  text += fmt::format(": over all these steps the mean own time of a rank is {} to {} ms", fixed_text(*least, 2),
                      fixed_text(*most, 2));
  if (slow) {
    text += fmt::format(", and that of this rank is {} ms ({} of a step) above the mean of the ranks",
                        fixed_text(slowest.excess_ms, 2), percent_text(slowest.excess_ms / step, 1));
  }
  const double spread = mean(column(steady, &StepRow::own_ms_max)) - mean(column(steady, &StepRow::own_ms_mean));
  return text +
         fmt::format(
             ". In a single step the slowest rank is {} ms above the mean of the ranks on average; which rank that is "
             "may change from step to step.",
             fixed_text(spread, 2));
}

Figure busy_figure(const RunData& run) {
  LineChart chart{.title = "Own time of the ranks", .x_label = "step", .y_label = "ms per step"};
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
  const auto own_ms = mean_own_ms(steady);
  if (!own_ms.empty()) document.add(Paragraph{verdict_text(steady, own_ms)});
  document.add(
      Paragraph{"Ranks step together, so a slow one shows only in how long the others wait. A rank's own time is its "
                "step without the time for which others blocked it: exposed communication and, within other, waiting "
                "for the times of the other ranks. The rank with the longest own time is the slowest."});
  document.add(ranks_table(steady, own_ms));
  document.add(busy_figure(run));
  document.add(Paragraph{
      fmt::format("Phase by phase: the minimum, mean and maximum over {:g} ranks in a step, averaged over {} steps, "
                  "and the rank that "
                  "most often has the maximum. Minimum and maximum also differ if the ranks take turns at being slow.",
                  run.ranks, steady.size())});
  document.add(activities_table(steady));
}

}  // namespace lt::report
