// Finds the segments of a run, and shows them.
#include "report/segments.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.h"

namespace lt::report {
namespace {

// A missing setting is not a difference: the run may be of a version that does not record it.
bool same(const Settings& a, const Settings& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& setting) {
    const auto other = b.find(setting.first);
    return other == b.end() || other->second == setting.second;
  });
}

std::string value_of(const Segment& segment, const char* field) {
  const auto found = segment.settings.find(field);
  return found == segment.settings.end() ? "–" : found->second;
}

}  // namespace

void divide_into_segments(RunData& run) {
  const Start* last = run.starts.empty() ? nullptr : &run.starts.back();
  for (const StepRow& row : run.steps) {
    const auto of_row = [&](const Start& start) { return start.number == row.start; };
    const auto start = std::find_if(run.starts.begin(), run.starts.end(), of_row);
    const Settings settings = start == run.starts.end() ? Settings{} : start->settings;
    if (run.segments.empty() || !same(run.segments.back().settings, settings))
      run.segments.push_back({row.step, row.step, {}});
    run.segments.back().last = row.step;
    run.segments.back().settings.insert(settings.begin(), settings.end());
    if (start != run.starts.end()) last = &*start;  // a start without steps says nothing about the existing ones
  }
  if (last == nullptr) return;
  run.ranks = last->ranks;
  run.predicted_peak_bytes = last->predicted_peak_bytes;
  run.flops_per_token = last->flops_per_token;
  run.parameters = last->parameters;
  run.model = last->model;
  run.ledger = last->ledger;
}

std::string range_text(const Segment& segment) {
  const std::string last = whole_text(segment.last);
  return segment.first == segment.last ? last : fmt::format("{} to {}", whole_text(segment.first), last);
}

bool has_segments(const RunData& run) { return run.segments.size() > 1; }

std::string measured_range(const RunData& run) { return run.segments.empty() ? "–" : range_text(run.segments.back()); }

std::string measured_setting(const RunData& run, const char* field, const char* config_key) {
  const std::string of_segment = run.segments.empty() ? "–" : value_of(run.segments.back(), field);
  return of_segment == "–" ? config_text(run, config_key) : of_segment;
}

std::string segments_note(const RunData& run) {
  if (!has_segments(run)) return {};
  return fmt::format("Resumed with other settings: speed and memory cover steps {}, losses cover all steps.",
                     measured_range(run));
}

Table segments_table(const RunData& run) {
  Table t{.header = {"steps"}, .rows = {}, .words = true};
  if (!has_segments(run)) return t;
  for (const Segment& segment : run.segments) t.rows.push_back({range_text(segment)});
  for (const Setting& setting : kSettings) {
    const std::string first = value_of(run.segments[0], setting.field);
    const auto as_first = [&](const Segment& segment) { return value_of(segment, setting.field) == first; };
    if (!setting.always && std::all_of(run.segments.begin(), run.segments.end(), as_first)) continue;
    t.header.push_back(setting.words);
    for (std::size_t i = 0; i < run.segments.size(); ++i) t.rows[i].push_back(value_of(run.segments[i], setting.field));
  }
  t.header.push_back("tokens/s");
  for (std::size_t i = 0; i < run.segments.size(); ++i) {
    t.rows[i].push_back(count_text(median(column(steady_steps(run, run.segments[i]), &StepRow::tokens_per_s))));
  }
  return t;
}

}  // namespace lt::report
