// Builds the row of a step from this rank's times and counters and from the reports of all ranks.
#include "run/step_record.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "libtrain/error.h"
#include "record/system_memory.h"
#include "run/run_signals.h"

namespace lt::run {
namespace {

// A rank's report on its step to the other ranks.
struct RankReport {
  double step_ms = 0, own_ms = 0;
  std::array<double, kActivities> breakdown_ms{};
  Size memory_peak_bytes = 0;
  int stop_signal = 0;
};
static_assert(std::is_trivially_copyable_v<RankReport>);

// Throws UsageError on all ranks if one of their texts says what was wrong with its batch.
void require_good_batches(const std::vector<std::string>& problems) {
  const auto found = std::find_if(problems.begin(), problems.end(), [](const auto& text) { return !text.empty(); });
  if (found == problems.end()) return;
  UsageError error("ops", *found);
  error.set_shared(static_cast<int>(found - problems.begin()));
  throw error;
}

// Summarises the ranks' reports in this rank's record, and returns the stop signal of the lowest rank that has one.
// `problem` is of this rank's batch; empty: none.
int gather_ranks(recorder::StepRecord& record, const RankReport& mine, const std::string& problem,
                 const Group& control) {
  int stop_signal = 0;
  std::vector<RankReport> reports;
  std::vector<std::string> problems;
  for (const std::string& bytes :
       control.all_gather_bytes(std::string(reinterpret_cast<const char*>(&mine), sizeof mine) + problem)) {
    std::memcpy(&reports.emplace_back(), bytes.data(), sizeof mine);
    problems.push_back(bytes.substr(sizeof mine));
    record.memory_peak_bytes = std::max(record.memory_peak_bytes, reports.back().memory_peak_bytes);
    if (stop_signal == 0) stop_signal = reports.back().stop_signal;
  }
  require_good_batches(problems);
  const auto column = [&](auto&& value) {
    std::vector<double> values;
    for (const RankReport& report : reports) values.push_back(value(report));
    return recorder::over_ranks(values);
  };
  record.step_ms_over_ranks = column([](const RankReport& report) { return report.step_ms; });
  record.own_ms_over_ranks = column([](const RankReport& report) { return report.own_ms; });
  if (reports.size() <= recorder::kRanksListed) {
    for (const RankReport& report : reports) record.own_ms.push_back(report.own_ms);
  }
  for (std::size_t i = 0; i < kActivities; ++i) {
    record.breakdown_over_ranks[i] = column([i](const RankReport& report) { return report.breakdown_ms[i]; });
  }
  return stop_signal;
}

}  // namespace

IssuedStep issued_step(const Run& run, const StepResult& result, double lr, profile::ActivityClock& clock) {
  return {run.steps_done(), result, lr, clock.lap(), take_comm_lap(), take_waiting_ms()};
}

FinishedStep finish_step(const Run& run, const IssuedStep& issued) {
  FinishedStep finished;
  recorder::StepRecord& record = finished.record;
  record.step = issued.step, record.steps = run.resolved.steps();
  record.lr = issued.lr;
  std::string problem;
  try {
    record.loss = issued.result.loss(), record.grad_norm = issued.result.norm();
    if (run.engine->options().dtype == DType::f16) record.loss_scale = issued.result.loss_scale();
  } catch (const UsageError& error) {
    problem = error.what();
  }
  record.tokens = run.engine->batch_shape().global_tokens();
  record.breakdown_ms = issued.lap.times();
  record.step_ms = std::accumulate(record.breakdown_ms.begin(), record.breakdown_ms.end(), 0.0);
  record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
  record.tokens_per_s_per_rank = record.tokens_per_s / run.world.size();
  record.mfu = run.mfu(record.tokens_per_s_per_rank);
  record.memory_peak_bytes = memory_peak(run.device()).total;
  // The difference can be negative: tensor pages that nothing has written yet are not resident.
  record.memory_outside_bytes =
      std::max<Size>(0, recorder::system_bytes_in_use(run.device()) - memory_live(run.device()).total);
  record.memory_total_bytes = run.device_memory_bytes;
  record.comm = issued.comm.totals();
  double waiting_ms = issued.waiting_ms;
  if (run.device().type == DeviceType::cuda) {  // the host runs ahead, so its own waits do not count
    waiting_ms = 0;
    for (const CommTotal& total : record.comm) waiting_ms += total.exposed_ms;
  }
  const RankReport mine = {record.step_ms, record.step_ms - waiting_ms, record.breakdown_ms, record.memory_peak_bytes,
                           RunSignals::noted()};
  finished.stop_signal = gather_ranks(record, mine, problem, run.control);
  return finished;
}

}  // namespace lt::run
