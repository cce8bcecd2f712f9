// Splits a step's time into causes that can be changed, and computes the free memory.
#include <algorithm>
#include <cmath>

#include "report/findings.h"

namespace lt::report {
namespace {

// Takes an activity's time out of the list: 0 if it is not there.
double take(std::vector<std::pair<std::string, double>>& activities, const char* name) {
  double taken = 0;
  std::erase_if(activities, [&](const auto& activity) {
    if (activity.first != name) return false;
    taken += activity.second;
    return true;
  });
  return taken;
}

}  // namespace

Costs costs_of(const RunData& run) {
  const auto steady = steady_steps(run);
  auto activities = mean_activities(steady);
  const auto activity = [&](const char* name) { return take(activities, name); };
  Costs c;
  c.data = activity("data"), c.forward = activity("forward"), c.backward = activity("backward"),
  c.recompute = activity("recompute");
  c.optimizer = activity("optimizer"), c.checkpoint = activity("checkpoint");
  c.gather = activity("gather_exposed"), c.reduce = activity("reduce_exposed");
  for (const auto& [name, ms] : activities) c.other += ms;  // and what another version records
  c.step_ms = c.compute() + c.communication() + c.data + c.optimizer + c.checkpoint + c.other;

  // The other ranks wait for the slowest one inside their collectives, where its lateness looks like a slow transfer.
  const double own_max = mean(column(steady, &StepRow::own_ms_max)),
               own_mean = mean(column(steady, &StepRow::own_ms_mean));
  if (run.ranks > 1 && own_max > own_mean && c.communication() > 0) {
    c.straggler = std::min(own_max - own_mean, c.communication());
    const double rest = (c.communication() - c.straggler) / c.communication();
    c.gather *= rest;
    c.reduce *= rest;
  }
  return c;
}

Headroom headroom_of(const RunData& run) {
  Headroom h;
  if (on_gpu(run)) return h;
  double ranks = environment_number(run, "ranks_on_host");
  if (std::isnan(ranks)) ranks = environment_number(run, "ranks");
  const double host = environment_number(run, "memory_bytes");
  double peak = kMissing, outside = 0;
  for (const StepRow* step : measured_steps(run)) {
    peak = std::fmax(peak, step->memory_peak_bytes);
    outside = std::fmax(outside, step->memory_outside_bytes);
  }
  if (!(host > 0) || !(ranks > 0) || std::isnan(peak)) return h;
  h.limit_bytes = host / ranks;
  h.used_bytes = peak + outside;
  h.free_bytes = std::max(0.0, h.limit_bytes - h.used_bytes);
  return h;
}

}  // namespace lt::report
