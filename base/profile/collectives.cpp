// Sums the times of collectives by operation.
#include "libtrain/profile/collectives.h"

#include <algorithm>

namespace lt {

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_gather: return "all_gather";
    case CollectiveOp::reduce_scatter: return "reduce_scatter";
    case CollectiveOp::all_reduce: return "all_reduce";
    case CollectiveOp::all_to_all: return "all_to_all";
    case CollectiveOp::broadcast: return "broadcast";
    case CollectiveOp::barrier: return "barrier";
    case CollectiveOp::exchange: return "exchange";
  }
  return "?";
}

double CollectiveTimes::exposed_ms() const { return std::max(0.0, end.ms_since(awaited)); }

std::vector<CommTotal> CommLap::totals() const {
  std::vector<CommTotal> totals = counts;
  const auto add = [&](const CollectiveTimes& entry, Size count) {
    auto found =
        std::find_if(totals.begin(), totals.end(), [&](const CommTotal& total) { return total.op == entry.op; });
    // Not found if the collective began in an earlier lap.
    if (found == totals.end()) found = totals.insert(found, {entry.op});
    found->busy_ms += static_cast<double>(count) * entry.end.ms_since(entry.begin);
    found->exposed_ms += static_cast<double>(count) * entry.exposed_ms();
  };
  for (const CollectiveTimes& entry : times) add(entry, 1);
  for (const Launches& graph : launches) {
    for (const CollectiveTimes& entry : graph.lap->times) add(entry, graph.count);
  }
  return totals;
}

}  // namespace lt
