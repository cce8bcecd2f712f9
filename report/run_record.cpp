// Shows a run's record: samples, events, environment and configuration.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/sections.h"
#include "report/text.h"

namespace lt::report {
namespace {

// A field's name, and below its value, in readable form.
std::string readable_name(const std::string& key) {
  if (key == "unix_time") return "last started";
  return key.ends_with("_bytes") ? key.substr(0, key.size() - 6) : key;
}

std::string readable(const std::string& key, const std::string& value) {
  const double number = number_of(value);
  if (std::isnan(number)) return value;
  if (key.ends_with("_bytes")) return bytes_text(number);
  if (key == "unix_time") return time_text(number);
  // Measured numbers are written with all their digits.
  const bool measured = key == "loss" || key == "seconds";
  return measured ? fmt::format("{:.6g}", number) : value;
}

Table event_table(const RunData& run) {
  Table t{.header = {"event", "step", "details"}, .rows = {}, .text = true};
  std::vector<Event> events = run.events;
  events.insert(events.end(), run.evals.begin(), run.evals.end());
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.line < b.line; });
  for (const Event& event : events) {
    std::string details;
    for (const auto& [key, value] : event.fields) {
      const bool of_attempt = event.kind == "end" && key == "seconds";
      details += fmt::format("{}{} {}{}", details.empty() ? "" : ", ", readable_name(key), readable(key, value),
                             of_attempt ? " since the last start" : "");
    }
    t.rows.push_back({event.kind, std::isnan(event.step) ? "" : whole_text(event.step), details});
  }
  constexpr std::size_t kShown = 40;
  if (t.rows.size() > kShown) {
    const std::size_t left_out = t.rows.size() - kShown;
    t.rows.erase(t.rows.begin() + kShown / 2, t.rows.end() - kShown / 2);
    t.rows.insert(t.rows.begin() + kShown / 2, {"…", "", fmt::format("{} more", left_out)});
  }
  return t;
}

std::string config_as_toml(const RunData& run) {
  std::string text, section;
  for (const auto& [key, value] : run.config) {
    const std::size_t dot = key.find('.');
    const std::string here = dot == std::string::npos ? "" : key.substr(0, dot);
    if (here != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section = here);
    text += fmt::format("{} = {}\n", dot == std::string::npos ? key : key.substr(dot + 1), value);
  }
  return text;
}

}  // namespace

void add_record(Document& document, const RunData& run, int level) {
  if (!run.samples.empty()) document.add(Heading{level, "Samples"});
  for (const auto& [name, text] : run.samples) document.add(Preformatted{name, text, false});
  document.add(Heading{level, "Record"});
  document.add(event_table(run));
  Table environment{.header = {}, .rows = {}, .text = true};
  for (const auto& [key, value] : run.environment)
    environment.rows.push_back({readable_name(key), readable(key, value)});
  document.add(environment);
  if (!run.config.empty()) document.add(Preformatted{"Configuration", config_as_toml(run), true});
}

}  // namespace lt::report
