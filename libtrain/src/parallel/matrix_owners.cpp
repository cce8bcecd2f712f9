// Greedy: longest processing time first (Graham 1969), over all units in their order.
#include "parallel/matrix_owners.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lt {

std::vector<int> MatrixOwners::assign(const std::vector<double>& flops) {
  std::vector<std::size_t> order(flops.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return flops[a] > flops[b]; });
  std::vector<int> owners(flops.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(flops_.begin(), flops_.end());
    owners[i] = static_cast<int>(least - flops_.begin());
    *least += flops[i];
  }
  return owners;
}

}  // namespace lt
