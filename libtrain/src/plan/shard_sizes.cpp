// Lists shard groups of whole nodes, and finds the one that makes a step fastest.
#include "plan/shard_sizes.h"

#include "libtrain/error.h"
#include "libtrain/parallel/strategy.h"
#include "plan/device_model.h"

namespace lt::planner {

int ranks_per_node(const PlanMachine& machine) {
  return machine.ranks_per_node > 0 ? machine.ranks_per_node : find_device_model(machine.device).ranks_per_node;
}

std::vector<int> shard_sizes(int ranks, int ranks_per_node) {
  std::vector<int> sizes;
  for (long size = ranks_per_node; size < ranks; size *= 2) {
    if (ranks % size == 0) sizes.push_back(static_cast<int>(size));
  }
  sizes.push_back(0);
  return sizes;
}

}  // namespace lt::planner

namespace lt {

void find_faster_shards(Plan& plan, const Config& config) {
  constexpr double kWorthTrying = 0.1, kWorthSaying = 1.05;
  if (plan.strategy.shards_nothing()) return;
  if (plan.step_time.exposed_network_ms < kWorthTrying * plan.step_time.total_ms()) return;
  plan.faster_tokens_per_s = kWorthSaying * plan.tokens_per_s;
  for (const int size : planner::shard_sizes(plan.ranks, plan.machine.ranks_per_node)) {
    if (size == plan.shard_size) continue;
    Config other = config;
    other.parallel.shard_size = size;
    Plan tried;
    try {
      tried = make_plan(other, plan.ranks, plan.machine);
    } catch (const UsageError&) {  // groups of this size are refused, which says nothing of the plan
      continue;
    }
    if (tried.tokens_per_s <= plan.faster_tokens_per_s || (plan.fits_device() && !tried.fits_device())) continue;
    plan.faster_shard_size = size, plan.faster_tokens_per_s = tried.tokens_per_s;
  }
}

}  // namespace lt
