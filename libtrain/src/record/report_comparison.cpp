// The part of a report that compares runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "record/report_sections.h"
#include "record/report_text.h"
#include "record/svg_chart.h"

namespace lt::report {
namespace {

// The run with the fewest ranks is what efficiency and the ideal line are relative to; null where no rank count is
// known.
const Summary* fewest_ranks(const std::vector<Summary>& summaries) {
  const Summary* base = nullptr;
  for (const Summary& s : summaries) {
    if (!(s.ranks > 0) || std::isnan(s.tokens_per_s)) continue;
    if (base == nullptr || s.ranks < base->ranks || (s.ranks == base->ranks && s.tokens_per_s > base->tokens_per_s))
      base = &s;
  }
  return base;
}

Table key_figures(const std::vector<RunData>& runs, const std::vector<Summary>& summaries) {
  Table t{.header = {"run", "strategy", "ranks", "tokens/s", "per rank", "efficiency", "step ms", "MFU", "peak",
                     "exposed", "last loss", "best eval"},
          .rows = {}};
  const Summary* base = fewest_ranks(summaries);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Summary& s = summaries[i];
    double total = 0, exposed = 0;
    for (const auto& [part, ms] : mean_breakdown(steady_steps(runs[i]))) {
      total += ms;
      if (part.ends_with("_exposed")) exposed += ms;
    }
    const double ideal = base == nullptr ? kMissing : base->tokens_per_s / base->ranks * s.ranks;
    t.rows.push_back({runs[i].name, s.strategy, whole_text(s.ranks), count_text(s.tokens_per_s),
                      count_text(s.tokens_per_s_per_rank), percent_text(s.tokens_per_s / ideal),
                      fixed_text(s.step_ms, 1), percent_text(s.mfu, 1), bytes_text(s.memory_peak_bytes),
                      total > 0 ? percent_text(exposed / total, 1) : "–", fixed_text(s.last_loss, 4),
                      fixed_text(s.best_eval_loss, 4)});
  }
  return t;
}

Figure scaling_figure(const std::vector<Summary>& summaries) {
  std::set<double> rank_counts;
  std::set<std::string> strategies;
  for (const Summary& s : summaries) {
    if (!(s.ranks > 0)) continue;
    rank_counts.insert(s.ranks);
    strategies.insert(s.strategy);
  }
  LineChart chart{.title = "Scaling", .x_label = "ranks", .y_label = "tokens/s", .series = {}, .from_zero = true};
  if (rank_counts.size() < 2) return {chart.title, {}};
  for (const std::string& strategy : strategies) {
    std::vector<std::pair<double, double>> points;
    for (const Summary& s : summaries) {
      if (s.strategy == strategy && s.ranks > 0) points.emplace_back(s.ranks, s.tokens_per_s);
    }
    std::sort(points.begin(), points.end());
    Series series{.name = strategy == "–" ? "measured" : strategy, .x = {}, .y = {}, .dots = true};
    for (const auto& [ranks, speed] : points) {
      series.x.push_back(ranks);
      series.y.push_back(speed);
    }
    chart.series.push_back(series);
  }
  if (const Summary* base = fewest_ranks(summaries)) {
    Series ideal{.name = "in proportion to the ranks", .x = {}, .y = {}, .dots = false, .dashed = true};
    for (double ranks : rank_counts) {
      ideal.x.push_back(ranks);
      ideal.y.push_back(base->tokens_per_s / base->ranks * ranks);
    }
    chart.series.push_back(ideal);
  }
  return {chart.title, figure(chart)};
}

Table speeds(const std::vector<RunData>& runs, const std::vector<Summary>& summaries) {
  Table t{.header = {"run", "tokens/s"}, .rows = {}};
  double largest = 0;
  for (const Summary& s : summaries) largest = std::fmax(largest, s.tokens_per_s);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    t.rows.push_back({runs[i].name, count_text(summaries[i].tokens_per_s)});
    t.bars.push_back(largest > 0 && summaries[i].tokens_per_s > 0 ? summaries[i].tokens_per_s / largest : 0);
  }
  return t;
}

Table differing_settings(const std::vector<RunData>& runs) {
  Table t{.header = {"setting"}, .rows = {}, .text = true};
  std::set<std::string> keys;
  for (const RunData& run : runs) {
    t.header.push_back(run.name);
    for (const auto& entry : run.config) keys.insert(entry.first);
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const RunData& run : runs) {
      const auto found = run.config.find(key);
      row.push_back(found == run.config.end() ? "–" : found->second);
    }
    const bool same = std::all_of(row.begin() + 1, row.end(), [&](const std::string& cell) { return cell == row[1]; });
    if (!same && key != "run.dir" && key != "run.name") t.rows.push_back(row);
  }
  return t;
}

Table ledgers(const std::vector<RunData>& runs) {
  Table t{.header = {"owner"}, .rows = {}};
  std::vector<std::string> owners;
  for (const RunData& run : runs) {
    t.header.push_back(run.name);
    for (const auto& entry : run.ledger) {
      if (std::find(owners.begin(), owners.end(), entry.first) == owners.end()) owners.push_back(entry.first);
    }
  }
  for (const std::string& owner : owners) {
    std::vector<std::string> row = {owner};
    for (const RunData& run : runs) {
      const auto found =
          std::find_if(run.ledger.begin(), run.ledger.end(), [&](const auto& e) { return e.first == owner; });
      row.push_back(found == run.ledger.end() ? "–" : bytes_text(found->second));
    }
    t.rows.push_back(row);
  }
  return t;
}

}  // namespace

void add_comparison(Document& document, const std::vector<RunData>& runs) {
  std::vector<Summary> summaries;
  std::vector<const RunData*> pointers;
  for (const RunData& run : runs) {
    summaries.push_back(summarize(run));
    pointers.push_back(&run);
  }
  document.add(key_figures(runs, summaries));
  if (fewest_ranks(summaries) != nullptr) {
    document.add(
        Paragraph{"Efficiency is tokens a second and rank, relative to the run with the fewest ranks; exposed is the "
                  "share of a step that waits for communication."});
  }
  document.add(loss_figure(pointers));
  if (!document.add(scaling_figure(summaries))) {
    document.add(Heading{2, "Speed"});
    document.add(speeds(runs, summaries));
  }
  if (const Table t = ledgers(runs); !t.rows.empty()) {
    document.add(Heading{2, "Memory of the fullest rank"});
    document.add(t);
  }
  if (const Table t = differing_settings(runs); !t.rows.empty()) {
    document.add(Heading{2, "Settings that differ"});
    document.add(t);
  }
}

}  // namespace lt::report
