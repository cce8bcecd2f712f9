// Shows speed, efficiency and memory of the runs of a group side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/bar_chart.h"
#include "report/groups.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

Table efficiency_table(const RunGroup& group) {
  // Omits the MFU column if no run has an MFU, as on processors.
  const bool mfu = std::any_of(group.summaries.begin(), group.summaries.end(),
                               [](const Summary& s) { return std::isfinite(s.mfu); });
  Table t{.header = {"run", "strategy", "ranks", "tokens/s", "per rank", "efficiency", "step ms"}, .rows = {}};
  if (mfu) t.header.push_back("MFU");
  t.header.insert(t.header.end(), {"peak memory", "exposed"});
  const Summary& base = group.summaries[group.base];
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const Summary& s = group.summaries[i];
    double total = 0, exposed = 0;
    for (const auto& [activity, ms] : mean_activities(steady_steps(*group.runs[i]))) {
      total += ms;
      if (activity.ends_with("_exposed")) exposed += ms;
    }
    const double ideal = group.has_base && group.runs.size() > 1 ? base.tokens_per_s / base.ranks * s.ranks : kMissing;
    t.rows.push_back({group.runs[i]->name, strategy_of(s), whole_text(s.ranks), count_text(s.tokens_per_s),
                      count_text(s.tokens_per_s_per_rank), percent_text(s.tokens_per_s / ideal), ms_text(s.step_ms)});
    if (mfu) t.rows.back().push_back(percent_text(s.mfu, 1));
    t.rows.back().push_back(bytes_text(s.memory_peak_bytes));
    t.rows.back().push_back(total > 0 ? percent_text(exposed / total, 1) : "–");
  }
  return t;
}

// One line per strategy, and the ideal line: the base run's speed in proportion to the ranks.
Figure scaling_figure(const RunGroup& group) {
  LineChart chart{.title = "Scaling", .x_label = "ranks", .y_label = "tokens/s", .series = {}, .from_zero = true};
  std::set<double> rank_counts;
  std::set<std::string> strategies;
  std::vector<std::pair<double, double>> alone;
  for (const Summary& s : group.summaries) {
    if (!(s.ranks > 0) || std::isnan(s.tokens_per_s)) continue;
    rank_counts.insert(s.ranks);
    if (s.ranks > 1) strategies.insert(strategy_of(s));
    if (s.ranks == 1 && (alone.empty() || s.tokens_per_s > alone[0].second)) alone = {{1, s.tokens_per_s}};
  }
  if (rank_counts.size() < 2 || !group.has_base) return {chart.title, {}};
  for (const std::string& strategy : strategies) {
    std::vector<std::pair<double, double>> points = alone;
    for (const Summary& s : group.summaries) {
      if (strategy_of(s) == strategy && s.ranks > 1) points.emplace_back(s.ranks, s.tokens_per_s);
    }
    std::sort(points.begin(), points.end());
    Series series{.name = strategy == "–" ? "measured" : strategy, .x = {}, .y = {}, .dots = true};
    for (const auto& [ranks, speed] : points) {
      series.x.push_back(ranks);
      series.y.push_back(speed);
    }
    chart.series.push_back(series);
  }
  const Summary& base = group.summaries[group.base];
  Series ideal{.name = "in proportion to the ranks", .x = {}, .y = {}, .dots = false, .dashed = true};
  for (double ranks : rank_counts) {
    ideal.x.push_back(ranks);
    ideal.y.push_back(base.tokens_per_s / base.ranks * ranks);
  }
  chart.series.push_back(ideal);
  chart.x_ticks.assign(rank_counts.begin(), rank_counts.end());
  return {chart.title, figure(chart)};
}

Figure bars(const char* title, const RunGroup& group, double Summary::*member, std::string (*text)(double)) {
  BarChart chart{.title = title, .names = {title}, .rows = {}, .text = text};
  for (std::size_t i = 0; i < group.runs.size(); ++i) {
    const Summary& s = group.summaries[i];
    const std::string where = std::isfinite(s.ranks) ? fmt::format(": {} x {:g}", strategy_of(s), s.ranks) : "";
    chart.rows.push_back({group.runs[i]->name + where, {s.*member}});
  }
  return {title, figure(chart)};
}

}  // namespace

void add_scaling(Document& document, const RunGroup& group) {
  document.add(efficiency_table(group));
  document.add(scaling_figure(group));
  document.add(
      bars("Speed", group, &Summary::tokens_per_s, [](double speed) { return count_text(speed) + " tokens/s"; }));
  document.add(bars("Peak memory of the fullest rank", group, &Summary::memory_peak_bytes, bytes_text));
}

}  // namespace lt::report
