// Means and medians over a run's steps. Invariant: a missing value (NaN) never enters a sum.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "report/data.h"
#include "report/json.h"

namespace lt::report {
namespace {

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

// Sorts by count, then by rank.
std::vector<std::pair<int, int>> most_often_first(const std::map<int, int>& counts) {
  std::vector<std::pair<int, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

// The mean of rank 0's activities over the steps, in the order of first occurrence.
std::vector<std::pair<std::string, double>> mean_breakdown(const std::vector<const StepRow*>& steps) {
  std::vector<std::pair<std::string, double>> activities;
  double rows = 0;
  for (const StepRow* step : steps) {
    if (step->breakdown_ms.empty()) continue;
    ++rows;
    for (const auto& [name, ms] : step->breakdown_ms) {
      const auto same = [&name = name](const auto& activity) { return activity.first == name; };
      auto found = std::find_if(activities.begin(), activities.end(), same);
      if (found == activities.end()) found = activities.insert(activities.end(), {name, 0.0});
      found->second += or_zero(ms);
    }
  }
  for (auto& activity : activities) activity.second /= rows;
  return activities;
}

}  // namespace

double mean(const std::vector<double>& values) {
  double sum = 0;
  int count = 0;
  for (double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kMissing : sum / count;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kMissing;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<ActivityOverRanks> mean_breakdown_over_ranks(const std::vector<const StepRow*>& steps) {
  std::vector<ActivityOverRanks> activities;
  std::vector<std::map<int, int>> greatest;  // per activity: how often each rank had the maximum
  double rows = 0;
  for (const StepRow* step : steps) {
    if (step->breakdown_over_ranks.empty()) continue;
    ++rows;
    for (const ActivityOverRanks& activity : step->breakdown_over_ranks) {
      const auto same = [&](const ActivityOverRanks& other) { return other.name == activity.name; };
      const auto i =
          static_cast<std::size_t>(std::find_if(activities.begin(), activities.end(), same) - activities.begin());
      if (i == activities.size()) {
        activities.push_back({activity.name, 0, 0, 0, kMissing});
        greatest.emplace_back();
      }
      activities[i].min += or_zero(activity.min);
      activities[i].mean += or_zero(activity.mean);
      activities[i].max += or_zero(activity.max);
      if (std::isfinite(activity.rank)) ++greatest[i][static_cast<int>(activity.rank)];
    }
  }
  for (std::size_t i = 0; i < activities.size(); ++i) {
    activities[i].min /= rows;
    activities[i].mean /= rows;
    activities[i].max /= rows;
    if (!greatest[i].empty()) activities[i].rank = most_often_first(greatest[i]).front().first;
  }
  return activities;
}

bool has_breakdown_over_ranks(const std::vector<const StepRow*>& steps) {
  return std::any_of(steps.begin(), steps.end(),
                     [](const StepRow* step) { return !step->breakdown_over_ranks.empty(); });
}

std::vector<std::pair<std::string, double>> mean_activities(const std::vector<const StepRow*>& steps) {
  if (!has_breakdown_over_ranks(steps)) return mean_breakdown(steps);
  std::vector<std::pair<std::string, double>> activities;
  for (const ActivityOverRanks& activity : mean_breakdown_over_ranks(steps))
    activities.emplace_back(activity.name, activity.mean);
  return activities;
}

std::vector<double> mean_own_ms(const std::vector<const StepRow*>& steps) {
  if (steps.empty()) return {};
  std::vector<std::vector<double>> of_rank(steps.front()->own_ms.size());
  for (const StepRow* step : steps) {
    if (step->own_ms.size() != of_rank.size()) return {};
    for (std::size_t r = 0; r < of_rank.size(); ++r) of_rank[r].push_back(step->own_ms[r]);
  }
  std::vector<double> means;
  for (const auto& values : of_rank) means.push_back(mean(values));
  return means;
}

std::vector<std::pair<int, int>> slowest_ranks(const std::vector<const StepRow*>& steps) {
  std::map<int, int> counts;
  for (const StepRow* step : steps) {
    if (std::isfinite(step->slowest)) ++counts[static_cast<int>(step->slowest)];
  }
  return most_often_first(counts);
}

SlowestRank slowest_rank(const std::vector<const StepRow*>& steps) {
  const auto often = slowest_ranks(steps);
  if (often.empty()) return {};
  const auto share = [&](int times) { return static_cast<double>(times) / static_cast<double>(steps.size()); };
  const auto own_ms = mean_own_ms(steps);
  if (own_ms.empty()) {
    const auto [rank, times] = often.front();
    const double excess = mean(column(steps, &StepRow::own_ms_max)) - mean(column(steps, &StepRow::own_ms_mean));
    return {rank, share(times) >= kMostly ? excess : 0, share(times)};
  }
  const auto most = std::max_element(own_ms.begin(), own_ms.end());
  SlowestRank slowest{static_cast<int>(most - own_ms.begin()), *most - mean(own_ms), 0};
  for (const auto& [rank, times] : often) {
    if (rank == slowest.rank) slowest.often = share(times);
  }
  return slowest;
}

bool on_gpu(const RunData& run) { return config_text(run, "train.device") == "cuda"; }

double number_of(const std::string& text) {
  double value = kMissing;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kMissing;
}

std::string environment_text(const RunData& run, const std::string& key) {
  const auto found = std::ranges::find(run.environment, key, &std::pair<std::string, std::string>::first);
  return found == run.environment.end() ? "–" : found->second;
}

double environment_number(const RunData& run, const std::string& key) { return number_of(environment_text(run, key)); }

double threads_per_rank(const RunData& run) { return environment_number(run, "threads_per_rank"); }

double config_number(const RunData& run, const std::string& key) { return number_of(config_text(run, key)); }

std::string config_text(const RunData& run, const std::string& key) {
  const auto found = run.config.find(key);
  if (found == run.config.end()) return "–";
  std::string text = found->second;
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') text = text.substr(1, text.size() - 2);
  // What to_toml() escapes, JSON escapes too.
  if (const Json string = text.starts_with('"') ? parsed_json(text) : Json(); string.is_string())
    text = json_text(string);
  return text.empty() ? "–" : text;
}

std::string program_of(const RunData& run) {
  if (const std::string program = environment_text(run, "program"); program != "–") return program;
  const std::string command = environment_text(run, "command");
  return command == "–" ? "" : command.substr(0, command.find(' '));
}

std::string planning_program(const RunData& run) {
  if (!run.config.contains("model.family")) return run.config.contains("model.from") ? "" : "ltrain";
  if (run.config.contains("model.preset")) return "ltrain";
  return program_of(run);
}

bool is_slow(const SlowestRank& rank, double step_ms, double ranks) {
  return rank.excess_ms >= 0.03 * step_ms && rank.excess_ms >= 0.1 && rank.often >= std::min(1.5 / ranks, kMostly);
}

std::vector<CommRow> mean_comm(const std::vector<const StepRow*>& steps) {
  std::vector<CommRow> rows;
  for (const StepRow* step : steps) {
    for (const CommRow& c : step->comm) {
      auto found = std::find_if(rows.begin(), rows.end(), [&](const CommRow& row) { return row.op == c.op; });
      if (found == rows.end()) found = rows.insert(rows.end(), CommRow{.op = c.op});
      found->bytes += or_zero(c.bytes);
      found->calls += or_zero(c.calls);
      found->busy_ms += or_zero(c.busy_ms);
      found->exposed_ms += or_zero(c.exposed_ms);
    }
  }
  const auto count = static_cast<double>(steps.size());
  for (CommRow& row : rows) {
    if (row.busy_ms > 0) row.busbw_gbps = row.bytes / row.busy_ms / 1e6;
    row.bytes /= count;
    row.calls /= count;
    row.busy_ms /= count;
    row.exposed_ms /= count;
  }
  return rows;
}

}  // namespace lt::report
