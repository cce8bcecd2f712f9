// The fastest configuration on each size of a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/plan/plan_fit.h"

namespace LT_API lt {

// The fastest configuration that fits on a number of nodes.
struct ClusterRow {
  int nodes = 1, ranks = 1;
  std::optional<FitTry> best;  // none: nothing fits, or the global batch does not divide
  Strategy strategy = Strategy::ddp;
  Recompute recompute = Recompute::none;
  Size accum = 1;
  double exposed_share = 0;  // of the step: waits for collectives, and work that they slow
  std::string bound_by;      // as in the plan's JSON
};
struct Cluster {
  std::string subject, model_json;  // as in a Fit
  Precision dtype = Precision::f32;
  PlanMachine machine;
  Size memory_bytes = 0;  // as in a Fit
  Size seq = 1, global_batch = 0;
  std::vector<ClusterRow> rows;
};
// Finds for each number of nodes the strategy, shard size, recomputation and micro-batch of the fastest step. With
// train.global_batch the batch stays and accum follows; without it the micro-batch is the largest that fits.
// Rows are in ascending order, each number once. `memory_bytes` as for fit_memory(). Throws UsageError.
Cluster plan_cluster(const Config& config, std::vector<int> nodes, const PlanMachine& machine, Size memory_bytes);
std::string to_json(const Cluster& cluster);
std::string to_text(const Cluster& cluster);
std::string to_svg(const Cluster& cluster);  // tokens/s of a rank over the ranks

}  // namespace lt
