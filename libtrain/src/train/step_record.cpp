// The row of a step: this rank's times and counters, and what the other ranks say of theirs.
#include "train/step_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lt {
namespace {

// Adds times and peaks of all ranks to this rank's record.
void gather_ranks(StepRecord& record, const Group& control) {
  const auto ranks = control.all_gather_bytes(fmt::format("{:a} {}", record.step_ms, record.memory_peak_bytes));
  record.step_ms_min = record.step_ms_max = record.step_ms;
  double sum = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    char* rest = nullptr;
    const double ms = std::strtod(ranks[r].c_str(), &rest);
    sum += ms;
    if (ms > record.step_ms_max) record.step_ms_max = ms, record.slowest_rank = static_cast<int>(r);
    record.step_ms_min = std::min(record.step_ms_min, ms);
    record.memory_peak_bytes = std::max<Size>(record.memory_peak_bytes, std::strtoll(rest, nullptr, 10));
  }
  record.step_ms_mean = sum / static_cast<double>(ranks.size());
}

}  // namespace

StepRecord make_record(const Run& run, const StepResult& result, double lr,
                       const std::array<double, kParts>& breakdown_ms) {
  StepRecord record;
  record.step = run.steps_done(), record.steps = run.config.train.steps;
  record.loss = result.loss(), record.grad_norm = result.norm(), record.lr = lr;
  record.tokens = run.engine->batch_shape().global_tokens();
  record.breakdown_ms = breakdown_ms;
  record.step_ms = std::accumulate(breakdown_ms.begin(), breakdown_ms.end(), 0.0);
  record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
  record.tokens_per_s_per_rank = record.tokens_per_s / run.world.size();
  record.memory_peak_bytes = memory_peak(run.device()).total;
  record.memory_outside_bytes = process_resident_bytes() - memory_live(run.device()).total;
  record.memory_total_bytes = machine_memory_bytes();
  record.comm = take_comm_totals();
  gather_ranks(record, run.control);
  return record;
}

}  // namespace lt
