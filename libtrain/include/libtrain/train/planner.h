// What a run will need, without running it: one step on the meta device, for any number of ranks, on one process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/memory/memory.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/profile/activity.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/train/config.h"

namespace lt {

// The machine that a step's time is estimated for.
struct PlanMachine {
  std::string device = "cpu";  // a row of docs/planning.md's table: h100, h200, a100, cpu
  int ranks_per_node = 0;      // 0: as the table says
  int cores = 1;               // that a rank of the row cpu computes with
};

// What a step would take by a table of rates; an estimate, where everything else in a plan is exact.
struct StepTime {
  double products_ms = 0, attention_ms = 0, traffic_ms = 0;  // of the compute stream
  double exposed_local_ms = 0, exposed_network_ms = 0;       // that it waits for collectives, by their slower link
  double collectives_ms = 0;                                 // that collectives take, hidden or not
  ActivityTimes breakdown_ms{};                              // the same by activity; adds up to the total

  double compute_ms() const { return products_ms + attention_ms + traffic_ms; }
  double exposed_ms() const { return exposed_local_ms + exposed_network_ms; }
  double total_ms() const { return compute_ms() + exposed_ms(); }
};

struct Plan {
  std::string model;       // its shape, for people
  std::string model_json;  // and for programs, as a checkpoint's manifest describes it
  std::string strategy, recompute, dtype;
  int ranks = 1, shard_size = 0;
  Size micro_batch = 1, accum = 1, seq = 1;
  Size peak_bytes = 0;  // maximum over ranks
  std::vector<Size> per_rank;
  MemoryUse ledger;  // at the peak of the fullest rank
  // Host memory of a rank for the buffers of asynchronous saves and for in-memory checkpoints; on the CPU it comes on
  // top of peak_bytes.
  Size host_bytes = 0;
  // Of the arena in which steps and evaluations take turns: its size, the most bytes that live in it at one time, and
  // what the same blocks would take without it.
  Size arena_bytes = 0, arena_live_bytes = 0, without_arena_bytes = 0;
  MemoryPlan step_memory;  // of a training step in that arena
  Size parameters = 0;
  double parameters_held = 0, parameters_optimized = 0;  // that a rank holds, and whose optimizer state; with alignment
  double flops_per_token = 0;
  Size tokens_per_step = 0;
  // What a rank sends in one step. all_to_all counts rank 0; other ranks may send different amounts.
  std::vector<CommTotal> comm;
  PlanMachine machine;
  StepTime step_time;
  double tokens_per_s = 0;  // of all ranks, by step_time
  double mfu = -1;          // likewise; below 0: the device's peak means nothing
  // The formulas of docs/strategies.md, in bytes, for P = parameters with their alignment.
  double formula_parameters = 0, formula_gradients = 0, formula_optimizer = 0;
};

// Shapes of the batches that a rank trains on and, where the configuration evaluates, of those; on the meta device.
struct RunBatches {
  Batch step;
  std::optional<Batch> evaluation;
};
RunBatches batches_on_meta(const BatchShape& shape, const Config& config);

// `config` need not name data. Throws UsageError.
Plan make_plan(const Config& config, int ranks, const PlanMachine& machine = {});
std::string to_json(const Plan& plan);
std::string to_text(const Plan& plan);
std::string to_svg(const Plan& plan);  // the arena of a step: which bytes hold what, when

inline constexpr Size kMostFitSamples = Size{1} << 16;  // larger micro-batches are not tried

// What fits a memory.
struct FitRow {
  std::string strategy, recompute;
  Size given_peak_bytes = 0;      // with the micro-batch of the configuration
  double given_tokens_per_s = 0;  // likewise, by the estimate
  Size micro_batch = 0;           // the largest that fits; 0: none does
  Size peak_bytes = 0;            // with it
  double tokens_per_s = 0;        // likewise
};
struct Fit {
  std::string subject;     // the model and what else holds for all rows, for people
  std::string model_json;  // of the model, for programs
  std::string dtype;
  PlanMachine machine;
  Size accum = 1;
  int ranks = 1, shard_size = 0;
  Size memory_bytes = 0;  // of a rank
  Size given_micro_batch = 0;
  std::vector<FitRow> rows;  // every strategy with every recomputation
  // Rows with the most tokens a second that fit: with the given micro-batch, and with the largest; -1: none.
  int best_given = -1, best = -1;
};

// Strategy and recomputation of `config` are passed over, the rest holds. Throws UsageError.
Fit fit_memory(const Config& config, int ranks, const PlanMachine& machine, Size memory_bytes);
std::string to_json(const Fit& fit);
std::string to_text(const Fit& fit);

}  // namespace lt
