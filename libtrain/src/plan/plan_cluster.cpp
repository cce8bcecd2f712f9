// The fastest configuration on each size of a cluster.
#include <fmt/format.h>

#include <algorithm>

#include "config/derive.h"
#include "config/names.h"
#include "libtrain/error.h"
#include "libtrain/plan/plan_cluster.h"
#include "plan/plan_trial.h"
#include "plan/shard_sizes.h"

namespace lt {
namespace {

class ClusterSearch {
 public:
  ClusterSearch(const Config& config, const PlanMachine& machine, Size memory_bytes)
      : config_(config), machine_(machine), memory_bytes_(memory_bytes) {}

  ClusterRow row(int nodes, int ranks) const {
    ClusterRow row;
    row.nodes = nodes, row.ranks = ranks;
    const Size batch = config_.train.global_batch;
    if (batch % ranks != 0) return row;
    planner::Trial trial(ranks, machine_, memory_bytes_);
    std::optional<Config> best;
    for (const Strategy& strategy : kStrategies) {
      for (const auto& [name, recompute] : config::kNames<Recompute>) {
        Config tried = config_;
        tried.train.global_batch = 0;
        tried.parallel.strategy = strategy, tried.parallel.recompute = recompute;
        Size first = 0;
        for (const int size : sizes(strategy, ranks)) {
          tried.parallel.shard_size = size;
          const std::optional<FitTry> found = trial.largest(tried, first, batch / ranks);
          if (!found) continue;
          first = found->micro_batch;
          if (row.best && !planner::better(*found, *row.best)) continue;
          row.best = found, best = tried;
          best->train.micro_batch = found->micro_batch, best->train.accum = found->accum;
        }
      }
    }
    if (best) describe(row, trial.plan(*best));
    return row;
  }

 private:
  std::vector<int> sizes(const Strategy& strategy, int ranks) const {
    if (strategy.shards_nothing()) return {0};
    if (config_.parallel.shard_size > 0) return {static_cast<int>(config_.parallel.shard_size)};
    return planner::shard_sizes(ranks, machine_.ranks_per_node);
  }

  static void describe(ClusterRow& row, const Plan& plan) {
    const StepTime& time = plan.step_time;
    row.strategy = plan.strategy, row.recompute = plan.recompute, row.accum = plan.accum;
    row.exposed_share = (time.exposed_ms() + time.contention_ms) / time.total_ms();
    row.bound_by = std::ranges::max(time.parts(), {}, [](const auto& part) { return part.second; }).first;
  }

  Config config_;
  PlanMachine machine_;
  Size memory_bytes_;
};

}  // namespace

Cluster plan_cluster(const Config& config, std::vector<int> nodes, const PlanMachine& given, Size memory_bytes) {
  if (memory_bytes == 0 && given.device == "cpu") {
    throw UsageError("plan", "--nodes: expected --memory with --gpu cpu, got none",
                     "the memory of a rank: --memory 8GiB");
  }
  PlanMachine machine = given;
  machine.ranks_per_node = planner::ranks_per_node(given);
  if (machine.ranks_per_node > kMostRanks) {
    throw UsageError("plan", "--nodes: expected --ranks-per-node with --gpu cpu, got none");
  }
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  Cluster cluster;
  cluster.machine = machine, cluster.global_batch = config.train.global_batch, cluster.seq = config.train.seq;
  const ClusterSearch search(config, machine, memory_bytes);
  for (const int count : nodes) {
    if (static_cast<long>(count) * machine.ranks_per_node > kMostRanks) {
      throw UsageError("plan", fmt::format("--nodes: expected at most {} ranks, got {} nodes of {}", kMostRanks, count,
                                           machine.ranks_per_node));
    }
    const int ranks = count * machine.ranks_per_node;
    if (const Size size = config.parallel.shard_size; size > 0 && ranks % size != 0) {
      throw UsageError("plan",
                       fmt::format("--nodes: expected numbers whose ranks parallel.shard_size={} divides, got {} "
                                   "of {} ranks",
                                   size, count, ranks));
    }
    Config one = config;
    one.train.global_batch = 0, one.train.micro_batch = 1;  // its own may be more than kernels take
    if (is_elastic(one)) config::with_batch(one, ranks);    // refuses some numbers of ranks
    if (cluster.subject.empty()) {
      one.parallel.shard_size = 0;  // that of the rows, which the given strategy may refuse
      const Plan plan = make_plan(one, ranks, machine);
      cluster.subject = fmt::format("{}; {}, sequences of {}", plan.model, config::name_of(plan.dtype), plan.seq);
      cluster.model_json = plan.model_json, cluster.dtype = plan.dtype, cluster.seq = plan.seq;
      cluster.memory_bytes = plan.device_bytes == 0 ? memory_bytes
                             : memory_bytes == 0    ? plan.device_bytes
                                                    : std::min(memory_bytes, plan.device_bytes);
    }
    cluster.rows.push_back(search.row(count, ranks));
  }
  return cluster;
}

}  // namespace lt
