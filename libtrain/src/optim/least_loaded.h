// Shares work out over equal bins: ranks of a shard group, lanes of a device.
#pragma once

#include <cstddef>
#include <vector>

namespace lt {

// Decides from costs alone, so all ranks decide alike: the largest first, each to the bin that has least so far.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::size_t bins) : loads_(bins) {}

  // The bin of each cost, on top of what earlier calls assigned.
  std::vector<int> assign(const std::vector<double>& costs);

 private:
  std::vector<double> loads_;
};

}  // namespace lt
