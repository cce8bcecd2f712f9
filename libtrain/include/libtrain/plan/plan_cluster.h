// Finds the fastest configuration for each size of a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/plan/plan_fit.h"

namespace LT_API lt {

// The fastest configuration that fits, for one number of nodes.
struct ClusterRow {
  int nodes = 1, ranks = 1;
  std::optional<FitTry> best;  // nullopt if none fits, or if `ranks` does not divide the global batch
  // These describe `best`.
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  Size accum = 1;
  double exposed_share = 0;  // share of the step: waits for collectives, and slowdown by them
  std::string bound_by;      // the name in StepTime::parts() of the largest time
};
struct Cluster {
  std::string subject, model_json;  // as in a Fit
  Precision dtype = Precision::f32;
  PlanMachine machine;
  Size memory_bytes = 0;  // as in a Fit
  Size seq = 1, global_batch = 0;
  std::vector<ClusterRow> rows;
};
// Finds, for each number of nodes, the strategy, shard size and recomputation with the most tokens/s, each with the
// largest micro-batch that fits. With train.global_batch, it changes accum to keep the batch. Rows are in ascending
// order of nodes, without duplicates. `memory_bytes` is as in fit_memory(). Throws UsageError.
Cluster plan_cluster(const Config& config, std::vector<int> nodes, const PlanMachine& machine, Size memory_bytes);
std::string to_json(const Cluster& cluster);
std::string to_text(const Cluster& cluster);
std::string to_svg(const Cluster& cluster);  // drawing of tokens/s per rank over the number of ranks

}  // namespace lt
