// Finds which strategies and recomputations fit a given memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

inline constexpr Size kMostFitSamples = Size{1} << 16;  // the largest micro-batch that fit_memory() tries

// A configuration that a Fit tried, with its planned memory and estimated speed.
struct FitTry {
  Size micro_batch = 0, accum = 1;
  int shard_size = 0;       // 0: all ranks
  Size peak_bytes = 0;      // of the fullest rank; on the CPU including Plan::host_bytes
  Size missing_bytes = 0;   // bytes by which the peak exceeds the memory limit of a rank; 0: it fits
  double tokens_per_s = 0;  // estimate, of all ranks
  double step_ms = 0;       // estimate
};
// One row of a Fit: a strategy with a recomputation. Each try has the fastest shard size that fits, or the one with the
// fewest missing_bytes if none fits.
struct FitRow {
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  std::optional<FitTry> given;    // with the micro-batch of the configuration
  std::optional<FitTry> largest;  // with the largest micro-batch that fits
  std::optional<FitTry> least;    // with a micro-batch of 1; ignore it if there is a `largest`
  std::string refused;  // why it cannot run, if there is no `given`, or neither `largest` nor `least`; else empty
};
struct Fit {
  std::string subject;     // the model and the settings shared by all rows, for display
  std::string model_json;  // the model's description in JSON
  Precision dtype = Precision::f32;
  PlanMachine machine;
  Size accum = 1;                 // of `given`; without a global_batch, of every try
  Size global_batch = 0;          // train.global_batch, which decides accum; 0: accum stays
  int ranks = 1, shard_size = 0;  // shard_size as configured; 0: see the rows
  Size memory_bytes = 0;          // per rank: the requested memory, or the GPU's if that is less
  Size given_micro_batch = 0;
  std::vector<FitRow> rows;  // one for each strategy and recomputation
  // Indices of the fitting rows with the most tokens/s: by `given`, and by `largest`. -1 if no row fits.
  int best_given = -1, best = -1;
  int nearest = -1;  // if nothing fits: the index of the row with the fewest missing_bytes
};

// Finds the configurations that fit `memory_bytes` per rank (0: the memory of the GPU; required on the CPU). On a GPU,
// CUDA and NCCL take a part of these bytes. Replaces the strategy and recomputation of `config` by all of them. Unless
// parallel.shard_size is set, tries the ranks of 1, 2, 4, ... nodes, and all ranks. With train.global_batch it changes
// accum to keep the batch, so it tries only micro-batches that divide a rank's samples. Throws UsageError for wrong
// arguments, and if no row can run.
Fit fit_memory(const Config& config, int ranks, const PlanMachine& machine, Size memory_bytes);
std::string to_json(const Fit& fit);
std::string to_text(const Fit& fit);

}  // namespace lt
