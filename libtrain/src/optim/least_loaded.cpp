// Greedy assignment, longest processing time first (Graham 1969).
#include "optim/least_loaded.h"

#include <algorithm>
#include <numeric>

namespace lt::optim {

std::vector<int> LeastLoaded::assign(const std::vector<double>& costs) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<int> bins(costs.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads_.begin(), loads_.end());
    bins[i] = static_cast<int>(least - loads_.begin());
    *least += costs[i];
  }
  return bins;
}

}  // namespace lt::optim
