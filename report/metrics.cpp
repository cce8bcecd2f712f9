// Reads metrics.jsonl line by line: step rows and events (docs/reference/metrics.md). Invariant: the file is not
// trusted; a wrong type is an error that names its line.
#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string_view>

#include "io/whole_file.h"
#include "libtrain/error.h"
#include "record/record.h"
#include "report/json.h"
#include "report/segments.h"

namespace lt::report {
namespace {

// A line of a metrics file, for error messages.
struct MetricsLine {
  std::string file;
  std::size_t line;

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("report", file + ": line " + std::to_string(line) + ": " + what);
  }
};

// The field as a number. A missing field and null (how JSON writes NaN) are kMissing.
double number(const Json& object, const char* key, const MetricsLine& line) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return kMissing;
  if (!found->is_number()) line.fail(std::string(key) + ": expected a number, got " + found->dump());
  return found->get<double>();
}

const Json* child(const Json& object, const char* key, bool array, const MetricsLine& line) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  if (array ? !found->is_array() : !found->is_object()) {
    line.fail(std::string(key) + ": expected an " + (array ? "array" : "object") + ", got " + found->dump());
  }
  return &*found;
}

std::vector<std::pair<std::string, double>> numbers(const Json& object, const MetricsLine& line) {
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [key, value] : object.items()) result.emplace_back(key, number(object, key.c_str(), line));
  return result;
}

std::vector<ActivityOverRanks> breakdown_over_ranks(const Json& o, const MetricsLine& line) {
  std::vector<ActivityOverRanks> activities;
  for (const auto& [name, over] : o.items()) {
    if (!over.is_object()) line.fail("ranks.parts_ms: expected objects, got " + over.dump());
    const auto of = [&, &over = over](const char* key) { return number(over, key, line); };
    activities.push_back({name, of("min"), of("mean"), of("max"), of("rank")});
  }
  return activities;
}

StepRow step_row(const Json& o, const MetricsLine& line) {
  const auto get = [&](const char* key) { return number(o, key, line); };
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
  if (const auto hex = o.find("loss_hex"); hex != o.end() && hex->is_string()) row.loss_hex = hex->get<std::string>();
  if (std::isnan(row.step)) line.fail("step: expected a number in a line that is no event");
  if (const Json* activities = child(o, "breakdown_ms", false, line)) row.breakdown_ms = numbers(*activities, line);
  if (const Json* comm = child(o, "comm", true, line)) {
    for (const Json& c : *comm) {
      if (!c.is_object()) line.fail("comm: expected objects, got " + c.dump());
      const auto of = [&](const char* key) { return number(c, key, line); };
      row.comm.push_back({c.contains("op") ? json_text(c["op"]) : "", of("bytes"), of("calls"), of("busy_ms"),
                          of("exposed_ms"), of("busbw_gbps")});
    }
  }
  if (const Json* ranks = child(o, "ranks", false, line)) {
    row.slowest = number(*ranks, "slowest", line);
    row.step_ms_min = number(*ranks, "step_ms_min", line);
    row.step_ms_mean = number(*ranks, "step_ms_mean", line);
    row.step_ms_max = number(*ranks, "step_ms_max", line);
    row.own_ms_min = number(*ranks, "own_ms_min", line);
    row.own_ms_mean = number(*ranks, "own_ms_mean", line);
    row.own_ms_max = number(*ranks, "own_ms_max", line);
    if (const Json* own = child(*ranks, "own_ms", true, line)) {
      for (const Json& ms : *own) {
        if (!ms.is_number() && !ms.is_null()) line.fail("ranks.own_ms: expected numbers, got " + ms.dump());
        row.own_ms.push_back(ms.is_null() ? kMissing : ms.get<double>());
      }
    }
    if (const Json* activities = child(*ranks, "parts_ms", false, line))
      row.breakdown_over_ranks = breakdown_over_ranks(*activities, line);
  }
  return row;
}

// A start at `step` continues from the state after it. Later records of earlier attempts belong to another trajectory,
// except their restarts and failed saves, which stay.
void drop_what_a_start_supersedes(RunData& run, double step) {
  const auto beyond = [step](const auto& line) { return line.step > step; };
  std::erase_if(run.steps, beyond);
  std::erase_if(run.evals, beyond);
  std::erase_if(run.events, [&](const Event& event) {
    return beyond(event) && event.kind != "restart" && event.kind != "checkpoint_failed";
  });
  std::erase_if(run.starts, beyond);
}

Start start_of(const Event& event, const Json& o, int number_of_start, const MetricsLine& line) {
  Start start{.number = number_of_start,
              .step = event.step,
              .ranks = number(o, "ranks", line),
              .predicted_peak_bytes = number(o, "predicted_peak_bytes", line),
              .flops_per_token = number(o, "flops_per_token", line),
              .parameters = number(o, "parameters", line)};
  if (const Json* ledger = child(o, "ledger", false, line)) start.ledger = numbers(*ledger, line);
  for (const auto& [key, value] : event.fields) {
    const auto same = [&key = key](const Setting& setting) { return key == setting.field; };
    if (std::any_of(std::begin(kSettings), std::end(kSettings), same)) start.settings.emplace(key, value);
    if (key == "model") start.model = value;
  }
  return start;
}

RestartRow restart_of(const Json& o, const MetricsLine& line) {
  RestartRow row{.attempt = number(o, "attempt", line),
                 .step = number(o, "step", line),
                 .lost_steps = number(o, "lost_steps", line)};
  if (o.contains("cause")) row.cause = json_text(o["cause"]);
  if (const Json* down = child(o, "down_seconds", false, line)) {
    row.notice_s = number(*down, "notice", line), row.backoff_s = number(*down, "backoff", line);
    row.start_s = number(*down, "start", line), row.total_s = number(*down, "total", line);
  }
  return row;
}

// `number_of_start` is the event's own number if it is a start.
void add_event(RunData& run, const Json& o, int number_of_start, const MetricsLine& line) {
  Event event{.kind = json_text(o["event"]), .step = number(o, "step", line), .line = line.line};
  for (const auto& [key, value] : o.items()) {
    if (key != "event" && key != "step" && !value.is_structured() && !value.is_null())
      event.fields.emplace_back(key, json_text(value));
  }
  if (event.kind == "eval") {
    event.loss = number(o, "loss", line);
    run.evals.push_back(std::move(event));
    return;
  }
  if (const auto seconds = o.find("seconds"); seconds != o.end() && seconds->is_number()) {
    event.seconds = seconds->get<double>();
  }
  if (event.kind == "start") {
    drop_what_a_start_supersedes(run, event.step);
    run.starts.push_back(start_of(event, o, number_of_start, line));
  }
  if (event.kind == "restart") run.restarts.push_back(restart_of(o, line));
  run.events.push_back(std::move(event));
}

// A step without a counted target has a loss of 0, which is none.
void forget_losses_without_targets(RunData& run) {
  std::set<double> without;
  for (const Event& event : run.events) {
    if (event.kind == "skip" && event_field(event, "reason") == recorder::kNoTargetCounts && !std::isnan(event.step)) {
      without.insert(event.step);
    }
  }
  for (StepRow& row : run.steps) {
    if (without.contains(row.step)) row.loss = kMissing;
  }
}

// Sorts by step. Keeps the last of the rows with equal steps.
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

}  // namespace

std::string event_field(const Event& event, const std::string& name) {
  for (const auto& [key, value] : event.fields) {
    if (key == name) return value;
  }
  return "–";
}

void read_metrics(RunData& run, const std::string& path) {
  const io::FileText content = io::read_file(path, /*only_regular=*/true);
  if (!content.problem.empty()) {
    std::error_code unknown;
    const bool missing = !std::filesystem::exists(path, unknown) && !unknown;
    throw DataError("report",
                    path + ": " + (missing ? "no such file" : "expected a readable file, found: " + content.problem),
                    "a run's folder is what --run.dir named: " + run.directory);
  }
  const std::string& text = content.text;
  std::size_t number = 0;
  int starts = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      run.torn = true;  // even if it is whole: the next start cuts it off
      break;
    }
    const std::string_view row(text.data() + begin, end - begin);
    const MetricsLine line{path, ++number};
    begin = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json o = parsed_json(row);
    if (!o.is_object()) {
      line.fail("expected a JSON object, got " + std::string(row.substr(0, 60)));
    } else if (o.contains("event")) {
      starts += o["event"] == "start" ? 1 : 0;
      add_event(run, o, starts, line);
    } else {
      run.steps.push_back(step_row(o, line));
      run.steps.back().start = starts;
    }
  }
  std::erase_if(run.evals, [](const Event& e) { return std::isnan(e.step); });
  keep_last_of_equal_steps(run.steps);
  keep_last_of_equal_steps(run.evals);
  forget_losses_without_targets(run);
}

}  // namespace lt::report
