// Means and medians of a run's steps. Invariant: missing values (NaN) never count.
#include <algorithm>
#include <cmath>

#include "record/report_data.h"

namespace lt::report {
namespace {

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

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

std::vector<std::pair<std::string, double>> mean_breakdown(const std::vector<const StepRow*>& steps) {
  std::vector<std::pair<std::string, double>> parts;
  double rows = 0;
  for (const StepRow* step : steps) {
    if (step->breakdown_ms.empty()) continue;
    ++rows;
    for (const auto& [name, ms] : step->breakdown_ms) {
      const auto same = [&name = name](const auto& part) { return part.first == name; };
      auto found = std::find_if(parts.begin(), parts.end(), same);
      if (found == parts.end()) found = parts.insert(parts.end(), {name, 0.0});
      found->second += or_zero(ms);
    }
  }
  for (auto& part : parts) part.second /= rows;
  return parts;
}

std::vector<CommRow> mean_comm(const std::vector<const StepRow*>& steps) {
  std::vector<CommRow> rows;
  std::vector<double> weighted, weights;  // of busbw_gbps, by bytes
  for (const StepRow* step : steps) {
    for (const CommRow& c : step->comm) {
      auto found = std::find_if(rows.begin(), rows.end(), [&](const CommRow& row) { return row.op == c.op; });
      const auto i = static_cast<std::size_t>(found - rows.begin());
      if (found == rows.end()) {
        rows.push_back({.op = c.op});
        weighted.push_back(0);
        weights.push_back(0);
      }
      rows[i].bytes += or_zero(c.bytes);
      rows[i].calls += or_zero(c.calls);
      rows[i].busy_ms += or_zero(c.busy_ms);
      rows[i].exposed_ms += or_zero(c.exposed_ms);
      if (std::isfinite(c.busbw_gbps) && c.bytes > 0) {
        weighted[i] += c.busbw_gbps * c.bytes;
        weights[i] += c.bytes;
      }
    }
  }
  const auto count = static_cast<double>(steps.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].bytes /= count;
    rows[i].calls /= count;
    rows[i].busy_ms /= count;
    rows[i].exposed_ms /= count;
    if (weights[i] > 0) rows[i].busbw_gbps = weighted[i] / weights[i];
  }
  return rows;
}

}  // namespace lt::report
