// Compares runs: speed-ups, memory and settings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/agreement.h"
#include "report/bar_chart.h"
#include "report/curves.h"
#include "report/groups.h"
#include "report/sections.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

// The names in all columns, in the order in which they first occur.
using Entries = std::vector<std::pair<std::string, double>>;
std::vector<std::string> names_of(const std::vector<Entries>& columns) {
  std::vector<std::string> names;
  for (const Entries& entries : columns) {
    for (const auto& entry : entries) {
      if (std::find(names.begin(), names.end(), entry.first) == names.end()) names.push_back(entry.first);
    }
  }
  return names;
}

double value_of(const Entries& entries, const std::string& name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.first == name; });
  return found == entries.end() ? kMissing : found->second;
}

// Adds stacked bars, one for each run, and the same numbers as a table of names x runs. `text` includes the unit,
// `cell` does not.
void add_segments(Document& document, const char* title, const char* row_name, const std::vector<RunData>& runs,
                  const std::vector<Entries>& columns, std::string (*text)(double), std::string (*cell)(double)) {
  BarChart chart{.title = title, .names = {}, .rows = {}, .text = text};
  Table t{.header = {row_name}, .rows = {}};
  std::vector<double> totals;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    t.header.push_back(runs[i].name);
    chart.rows.push_back({runs[i].name, {}});
    totals.push_back(0);
    for (const auto& entry : columns[i]) totals.back() += entry.second;
  }
  const double largest = *std::max_element(totals.begin(), totals.end());
  for (const std::string& name : names_of(columns)) {
    chart.names.push_back(spaced(name));
    std::vector<std::string> row = {spaced(name)};
    bool visible = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double value = value_of(columns[i], name);
      chart.rows[i].values.push_back(value);
      row.push_back(cell(value));
      visible = visible || value > 0.0005 * largest;
    }
    if (visible) t.rows.push_back(row);
  }
  if (!document.add(Figure{title, figure(chart)})) return;
  t.rows.push_back({"all"});
  for (double total : totals) t.rows.back().push_back(total > 0 ? cell(total) : "–");
  document.add(t);
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
    if (!same && key != "run.dir" && key != "run.name" && key != "checkpoint.dir") t.rows.push_back(row);
  }
  return t;
}

void add_losses(Document& document, const std::vector<RunData>& runs) {
  std::vector<const RunData*> pointers;
  Table t{.header = {"run", "steps", "tokens", "loss, last 10 steps", "best evaluation"}, .rows = {}};
  for (const RunData& run : runs) {
    pointers.push_back(&run);
    const Summary s = summarize(run);
    const std::string steps = s.first_step > 1 ? recorded_range(s) : whole_text(s.steps);
    t.rows.push_back(
        {run.name, steps, count_text(s.tokens), fixed_text(s.last_loss, 4), fixed_text(s.best_eval_loss, 4)});
  }
  document.add(Heading{2, "Losses"});
  add_agreement(document, group_runs(runs));
  for (const Figure& drawn : training_figures(pointers)) document.add(drawn);
  document.add(t);
}

}  // namespace

void add_comparison(Document& document, const std::vector<RunData>& runs) {
  add_groups(document, runs);
  std::vector<Entries> activities, ledgers;
  for (const RunData& run : runs) {
    activities.push_back(mean_activities(steady_steps(run)));
    ledgers.push_back(run.ledger);
  }
  document.add(Heading{2, "Time of a step"});
  add_segments(
      document, "Where a step's time goes", "ms per step", runs, activities,
      [](double ms) { return ms_text(ms) + " ms"; }, ms_cell);
  document.add(Heading{2, "Memory of the fullest rank"});
  add_segments(document, "Who holds how much at the peak", "owner", runs, ledgers, bytes_text, bytes_text);
  add_losses(document, runs);
  if (const Table t = differing_settings(runs); !t.rows.empty()) {
    document.add(Heading{2, "Settings that differ"});
    document.add(t);
  }
}

}  // namespace lt::report
