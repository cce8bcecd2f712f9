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
constexpr double kUneven = 0.03;  // of a step, from which on a rank is called slow

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

Table slowest_table(const std::vector<const StepRow*>& steady, const std::vector<double>& own_ms) {
  Table t{.header = {"rank", "busy ms", "slowest", "share"}, .rows = {}};
  auto ranks = slowest_ranks(steady);
  for (int r = 0; r < static_cast<int>(own_ms.size()); ++r) {  // those that never were
    if (std::none_of(ranks.begin(), ranks.end(), [r](const auto& entry) { return entry.first == r; }))
      ranks.emplace_back(r, 0);
  }
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksShown); ++i) {
    const auto [rank, times] = ranks[i];
    const auto index = static_cast<std::size_t>(rank);
    const double share = static_cast<double>(times) / static_cast<double>(steady.size());
    t.rows.push_back({fmt::format("rank {}", rank), index < own_ms.size() ? fixed_text(own_ms[index], 2) : "–",
                      std::to_string(times), percent_text(share, 1)});
    t.bars.push_back(share);
  }
  return t;
}

// Whether a rank is slow in every step, and how uneven a single step is.
std::string verdict_text(const std::vector<const StepRow*>& steady, const std::vector<double>& own_ms) {
  const double all = mean(own_ms), step = mean(column(steady, &StepRow::step_ms_mean));
  const auto [least, most] = std::minmax_element(own_ms.begin(), own_ms.end());
  const bool slow = *most - all >= kUneven * step;
  const double spread = mean(column(steady, &StepRow::own_ms_max)) - mean(column(steady, &StepRow::own_ms_mean));
  return fmt::format(
      "{}: over all these steps a rank is busy itself {} to {} ms on average{}. In a single step the slowest rank is "
      "{} "
      "ms above the mean of the ranks; what no rank shows on average falls on one here and on another there.",
      slow ? fmt::format("Rank {} is slower than the others", most - own_ms.begin()) : "No rank is slow",
      fixed_text(*least, 2), fixed_text(*most, 2),
      slow ? fmt::format(", and it is {} ms ({} of a step) above the mean", fixed_text(*most - all, 2),
                         percent_text((*most - all) / step, 1))
           : "",
      fixed_text(spread, 2));
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
  const auto own_ms = mean_own_ms(steady);
  if (!own_ms.empty()) document.add(Paragraph{verdict_text(steady, own_ms)});
  document.add(Paragraph{
      "Ranks step together, so a slow one shows in what the others wait for. Busy itself is a rank's step without the "
      "time in which others blocked it, be it exposed communication or, in part other, waiting for their times; the "
      "rank "
      "that is longest busy is the slowest."});
  document.add(slowest_table(steady, own_ms));
  document.add(busy_figure(run));
  document.add(Paragraph{fmt::format(
      "Part by part: the least, mean and greatest of the {:g} ranks in a step, averaged over {} steps; the "
      "rank is the one that is greatest most often. Min and max differ also where the ranks take turns in being slow.",
      run.ranks, steady.size())});
  document.add(parts_table(steady));
}

}  // namespace lt::report
