// Distributes work over equal bins, such as the ranks of a shard group or the lanes of a device.
#pragma once

#include <cstddef>
#include <vector>

namespace lt::optim {

// Assigns costs in descending order, each to the least loaded bin. The result depends only on the costs, so all ranks
// get the same one.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::size_t bins) : loads_(bins) {}

  // Returns the bin of each cost. Loads from earlier calls count.
  std::vector<int> assign(const std::vector<double>& costs);

 private:
  std::vector<double> loads_;
};

}  // namespace lt::optim
