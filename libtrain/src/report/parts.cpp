// Finds the parts of a run, and shows them.
#include "report/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.h"

namespace lt::report {
namespace {

// What one of them does not say is no difference: older versions say less.
bool same(const Settings& a, const Settings& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& setting) {
    const auto other = b.find(setting.first);
    return other == b.end() || other->second == setting.second;
  });
}

std::string value_of(const Part& part, const char* field) {
  const auto found = part.settings.find(field);
  return found == part.settings.end() ? "–" : found->second;
}

Table parts_table(const RunData& run) {
  Table t{.header = {"steps"}, .rows = {}, .words = true};
  for (const Part& part : run.parts) t.rows.push_back({range_text(part)});
  for (const Setting& setting : kSettings) {
    const std::string first = value_of(run.parts[0], setting.field);
    const auto as_first = [&](const Part& part) { return value_of(part, setting.field) == first; };
    if (!setting.always && std::all_of(run.parts.begin(), run.parts.end(), as_first)) continue;
    t.header.push_back(setting.words);
    for (std::size_t i = 0; i < run.parts.size(); ++i) t.rows[i].push_back(value_of(run.parts[i], setting.field));
  }
  t.header.push_back("tokens/s");
  for (std::size_t i = 0; i < run.parts.size(); ++i) {
    t.rows[i].push_back(count_text(median(column(steady_steps(run, run.parts[i]), &StepRow::tokens_per_s))));
  }
  return t;
}

}  // namespace

void divide_into_parts(RunData& run) {
  const Start* last = run.starts.empty() ? nullptr : &run.starts.back();
  for (const StepRow& row : run.steps) {
    const auto of_row = [&](const Start& start) { return start.number == row.start; };
    const auto start = std::find_if(run.starts.begin(), run.starts.end(), of_row);
    const Settings settings = start == run.starts.end() ? Settings{} : start->settings;
    if (run.parts.empty() || !same(run.parts.back().settings, settings)) run.parts.push_back({row.step, row.step, {}});
    run.parts.back().last = row.step;
    run.parts.back().settings.insert(settings.begin(), settings.end());
    if (start != run.starts.end()) last = &*start;  // a start that has no steps yet says nothing of those there are
  }
  if (last == nullptr) return;
  run.ranks = last->ranks;
  run.predicted_peak_bytes = last->predicted_peak_bytes;
  run.flops_per_token = last->flops_per_token;
  run.parameters = last->parameters;
  run.ledger = last->ledger;
}

std::string range_text(const Part& part) {
  const std::string last = whole_text(part.last);
  return part.first == part.last ? last : fmt::format("{} to {}", whole_text(part.first), last);
}

bool has_parts(const RunData& run) { return run.parts.size() > 1; }

std::string measured_range(const RunData& run) { return run.parts.empty() ? "–" : range_text(run.parts.back()); }

std::string measured_setting(const RunData& run, const char* field, const char* config_key) {
  const std::string of_part = run.parts.empty() ? "–" : value_of(run.parts.back(), field);
  return of_part == "–" ? config_text(run, config_key) : of_part;
}

void add_parts(Document& document, const RunData& run) {
  if (!has_parts(run)) return;
  document.add(Paragraph{fmt::format(
      "This run went on with other settings. What is said of speed, parts of a step, collectives, ranks and memory is "
      "of steps {} alone; losses are of all steps.",
      measured_range(run))});
  document.add(parts_table(run));
}

}  // namespace lt::report
