// What a run will need, without running it: one step on the meta device, for any number of ranks, on one process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/batch.h"
#include "libtrain/config.h"
#include "libtrain/group.h"
#include "libtrain/memory.h"

namespace lt {

struct Plan {
  std::string subject;  // the model's shape, strategy, recomputation and dtype, for people
  int ranks = 1;
  Size peak_bytes = 0;  // maximum over ranks
  std::vector<Size> per_rank;
  MemoryUse ledger;  // at the peak of the fullest rank
  // Of the arena in which steps and evaluations take turns: its size, the most bytes that live in it at one time, and
  // what the same blocks would take without it.
  Size arena_bytes = 0, arena_live_bytes = 0, without_arena_bytes = 0;
  Size parameters = 0;
  double parameters_held = 0, parameters_optimized = 0;  // that a rank holds, and whose optimizer state; with alignment
  double flops_per_token = 0;
  Size tokens_per_step = 0;
  std::vector<CommTotal> comm;  // of one step and rank
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
Plan make_plan(const Config& config, int ranks);
std::string to_json(const Plan& plan);
std::string to_text(const Plan& plan);

}  // namespace lt
