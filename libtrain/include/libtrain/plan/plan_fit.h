// What fits into a given memory: every strategy with every recomputation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/plan/planner.h"

namespace LT_API lt {

inline constexpr Size kMostFitSamples = Size{1} << 16;  // larger micro-batches are not tried

// A configuration that a Fit tried: its micro-batch and accum, its shard size (0: all ranks), and what it would need
// and do.
struct FitTry {
  Size micro_batch = 0, accum = 1;
  int shard_size = 0;
  Size peak_bytes = 0;
  Size missing_bytes = 0;   // by which the peak exceeds the memory; 0: it fits
  double tokens_per_s = 0;  // by the estimate
  double step_ms = 0;
};
// One row of a Fit: a strategy with a recomputation, each with its fastest shard size that fits.
struct FitRow {
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  std::optional<FitTry> given;    // with the micro-batch of the configuration; if none fits, the smallest
  std::optional<FitTry> largest;  // with the largest micro-batch that fits
  std::optional<FitTry> least;    // with a micro-batch of 1, the smallest, if there is no `largest`
  std::string refused;  // why there is no `given`, or no `largest` and `least`: it cannot run; otherwise empty
};
struct Fit {
  std::string subject;     // the model and the settings shared by all rows, for display
  std::string model_json;  // the model's description
  Precision dtype = Precision::f32;
  PlanMachine machine;
  Size accum = 1;                 // with the given micro-batch, and with all without a global_batch
  Size global_batch = 0;          // train.global_batch, from which accum follows; 0: accum stays
  int ranks = 1, shard_size = 0;  // shard_size as configured; 0: the rows say which
  Size memory_bytes = 0;          // per rank: the lesser of what was asked and what the GPU has
  Size given_micro_batch = 0;
  std::vector<FitRow> rows;  // every strategy with every recomputation
  // The fitting rows with the most tokens per second: with the given micro-batch, and with the largest. -1: none.
  int best_given = -1, best = -1;
  int nearest = -1;  // if nothing fits: the row that misses least
};

// Finds what fits `memory_bytes` per rank, of which on a GPU CUDA and NCCL take their share; 0: the memory of that GPU.
// Ignores strategy and recomputation of `config`, and tries the shard sizes of whole nodes unless one is configured.
// With train.global_batch the batch stays and accum follows, so it tries micro-batches that divide a rank's samples.
// Rows that cannot run with a shard size or micro-batch say why. Throws UsageError, also if no row can run.
Fit fit_memory(const Config& config, int ranks, const PlanMachine& machine, Size memory_bytes);
std::string to_json(const Fit& fit);
std::string to_text(const Fit& fit);

}  // namespace lt
