// The record of one step, for metrics.jsonl, the console and log.txt. docs/reference/metrics.md explains every field.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "libtrain/memory/memory.h"
#include "libtrain/profile/activity.h"
#include "libtrain/profile/collectives.h"

namespace lt::recorder {

// The reason of the event `skip` for a step whose targets are all ignored.
inline constexpr const char* kNoTargetCounts = "no target counts";

// Statistics over ranks of one number.
struct OverRanks {
  double min = 0, mean = 0, max = 0;
  int rank_of_max = 0;
};
OverRanks over_ranks(const std::vector<double>& values);  // `values` by rank, at least one
inline constexpr std::size_t kRanksListed = 64;           // most ranks whose times a row lists

// One row of metrics.jsonl.
struct StepRecord {
  Size step = 0, steps = 0;  // `steps` is the total (console only)
  Size tokens = 0;           // in the global batch
  float loss = 0, grad_norm = 0;
  double lr = 0;
  float loss_scale = 0;  // in f16; 0 for other dtypes: not in the row
  double step_ms = 0;
  double tokens_per_s = 0, tokens_per_s_per_rank = 0;
  double mfu = -1;  // below 0: the device's peak is unknown
  Size memory_peak_bytes = 0, memory_outside_bytes = 0;
  Size memory_total_bytes = 0;   // of the device (console only)
  ActivityTimes breakdown_ms{};  // adds up to step_ms
  std::vector<CommTotal> comm;
  // Statistics over ranks of the step time, of a rank's own busy time (the step time without waits for other ranks),
  // and of each activity. Ranks wait for each other in every step, so only the busy time reveals a slow rank.
  OverRanks step_ms_over_ranks, own_ms_over_ranks;
  std::vector<double> own_ms;  // by rank; empty for more than kRanksListed
  std::array<OverRanks, kActivities> breakdown_over_ranks{};
};

std::string to_json_line(const StepRecord& record);
// step   120/5000 | loss 3.4812 | norm 0.912 | lr 3.00e-04 | 412 ms | 1.27M tok/s | 41.2% mfu | 61.2/80.0 GiB | eta
// 33m12s
std::string console_line(const StepRecord& record, double eta_s);

}  // namespace lt::recorder
