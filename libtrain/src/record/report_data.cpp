// Reads a run's folder for the report. Invariant: nothing here trusts a file; a wrong type is an error with its place.
#include "record/report_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "libtrain/error.h"

namespace lt::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kSamplesShown = 3;
constexpr std::size_t kSampleBytes = 4000;

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || fs::is_directory(path)) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// One line of a metrics file, for messages.
struct Place {
  std::string file;
  std::size_t line;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("report", file + ": line " + std::to_string(line) + ": " + what);
  }
};

// The number of a field; missing and null (how JSON writes NaN) are kMissing.
double number(const Json& object, const char* key, const Place& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return kMissing;
  if (!found->is_number()) place.fail(std::string(key) + ": expected a number, got " + found->dump());
  return found->get<double>();
}

const Json* child(const Json& object, const char* key, bool array, const Place& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (array ? !found->is_array() : !found->is_object()) {
    place.fail(std::string(key) + ": expected an " + (array ? "array" : "object") + ", got " + found->dump());
  }
  return &*found;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::vector<std::pair<std::string, double>> numbers(const Json& object, const Place& place) {
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [key, value] : object.items()) result.emplace_back(key, number(object, key.c_str(), place));
  return result;
}

StepRow step_row(const Json& o, const Place& place) {
  const auto get = [&](const char* key) { return number(o, key, place); };
  StepRow row{.step = get("step"),
              .tokens = get("tokens"),
              .loss = get("loss"),
              .grad_norm = get("grad_norm"),
              .lr = get("lr"),
              .step_ms = get("step_ms"),
              .tokens_per_s = get("tokens_per_s"),
              .tokens_per_s_per_rank = get("tokens_per_s_per_rank"),
              .mfu = get("mfu"),
              .memory_peak_bytes = get("memory_peak_bytes"),
              .memory_outside_bytes = get("memory_outside_bytes"),
              .breakdown_ms = {},
              .comm = {}};
  if (std::isnan(row.step)) place.fail("step: expected a number in a line that is no event");
  if (const Json* parts = child(o, "breakdown_ms", false, place)) row.breakdown_ms = numbers(*parts, place);
  if (const Json* comm = child(o, "comm", true, place)) {
    for (const Json& c : *comm) {
      if (!c.is_object()) place.fail("comm: expected objects, got " + c.dump());
      const auto of = [&](const char* key) { return number(c, key, place); };
      row.comm.push_back({c.contains("op") ? text_of(c["op"]) : "", of("bytes"), of("calls"), of("busy_ms"),
                          of("exposed_ms"), of("busbw_gbps")});
    }
  }
  if (const Json* ranks = child(o, "ranks", false, place)) {
    row.slowest = number(*ranks, "slowest", place);
    row.step_ms_min = number(*ranks, "step_ms_min", place);
    row.step_ms_mean = number(*ranks, "step_ms_mean", place);
    row.step_ms_max = number(*ranks, "step_ms_max", place);
  }
  return row;
}

void add_event(RunData& run, const Json& o, const Place& place) {
  Event event{.kind = text_of(o["event"]), .step = number(o, "step", place), .loss = kMissing, .fields = {}};
  for (const auto& [key, value] : o.items()) {
    if (key != "event" && key != "step" && !value.is_structured() && !value.is_null())
      event.fields.emplace_back(key, text_of(value));
  }
  if (event.kind == "eval") {
    event.loss = number(o, "loss", place);
    run.evals.push_back(std::move(event));
    return;
  }
  if (event.kind == "start") {
    run.predicted_peak_bytes = number(o, "predicted_peak_bytes", place);
    if (const auto ranks = o.find("ranks"); ranks != o.end() && ranks->is_number()) run.ranks = ranks->get<double>();
    if (const Json* ledger = child(o, "ledger", false, place)) run.ledger = numbers(*ledger, place);
  }
  run.events.push_back(std::move(event));
}

// Sorts by step and keeps, of equal steps, the row that came last.
template <class Row>
void keep_last_of_equal_steps(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.step < b.step; });
  std::vector<Row> kept;
  for (Row& row : rows) {
    if (!kept.empty() && kept.back().step == row.step) kept.pop_back();
    kept.push_back(std::move(row));
  }
  rows = std::move(kept);
}

void read_metrics(RunData& run, const fs::path& path) {
  const auto content = read_file(path);
  if (!content) {
    throw DataError("report", path.string() + ": no such file",
                    "a run's folder is what --run.dir named: " + run.directory);
  }
  const std::string& text = *content;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    const std::size_t end = newline == std::string::npos ? text.size() : newline;
    const std::string_view row(text.data() + begin, end - begin);
    const Place place{path.string(), ++line};
    begin = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json o = Json::parse(row, nullptr, /*allow_exceptions=*/false);
    if (o.is_discarded() && begin >= text.size()) {
      run.torn = true;
    } else if (!o.is_object()) {
      place.fail("expected a JSON object, got " + std::string(row.substr(0, 60)));
    } else if (o.contains("event")) {
      add_event(run, o, place);
    } else {
      run.steps.push_back(step_row(o, place));
    }
  }
  std::erase_if(run.evals, [](const Event& e) { return std::isnan(e.step); });
  keep_last_of_equal_steps(run.steps);
  keep_last_of_equal_steps(run.evals);
}

// The TOML that to_toml() writes: sections of `key = value` lines. Values stay text.
void read_config(RunData& run, const std::string& toml) {
  std::istringstream lines(toml);
  std::string section;
  const auto trimmed = [](std::string_view s) {
    const std::size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string() : std::string(s.substr(first, last - first + 1));
  };
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    const std::size_t equals = line.find('=');
    if (line.starts_with('[') && line.ends_with(']')) {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (!line.starts_with('#') && equals != std::string::npos) {
      run.config[section + trimmed(std::string_view(line).substr(0, equals))] =
          trimmed(std::string_view(line).substr(equals + 1));
    }
  }
}

void flatten(const Json& value, const std::string& name, std::vector<std::pair<std::string, std::string>>& out) {
  if (!value.is_object()) {
    out.emplace_back(name, text_of(value));
    return;
  }
  for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, out);
}

void read_samples(RunData& run, const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_regular_file(none)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.size() > kSamplesShown) files.erase(files.begin(), files.end() - kSamplesShown);
  for (const fs::path& file : files) {
    if (auto text = read_file(file)) run.samples.emplace_back(file.filename().string(), text->substr(0, kSampleBytes));
  }
}

}  // namespace

RunData read_run(const std::string& directory) {
  RunData run;
  run.directory = directory;
  fs::path folder = fs::path(directory).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  run.name = folder.filename().string();
  read_metrics(run, folder / "metrics.jsonl");
  if (const auto toml = read_file(folder / "config.toml")) read_config(run, *toml);
  if (const auto text = read_file(folder / "env.json")) {
    const Json environment = Json::parse(*text, nullptr, false);
    if (environment.is_object()) flatten(environment, "", run.environment);
  }
  read_samples(run, folder / "samples");
  if (std::isnan(run.ranks) && !run.steps.empty()) {
    run.ranks = std::round(run.steps.back().tokens_per_s / run.steps.back().tokens_per_s_per_rank);
  }
  return run;
}

std::vector<const StepRow*> steady_steps(const RunData& run) {
  const std::size_t n = run.steps.size();
  const std::size_t skipped = n < 3 ? 0 : std::clamp<std::size_t>(n / 10, 1, 10);
  std::vector<const StepRow*> steps;
  for (std::size_t i = skipped; i < n; ++i) steps.push_back(&run.steps[i]);
  return steps;
}

}  // namespace lt::report
