// Which rank of a shard group transforms each matrix for an optimizer that looks at matrices as a whole.
#pragma once

#include <cstddef>
#include <vector>

namespace lt {

// Decides from FLOPs alone, so all ranks decide alike: the largest first, each to the rank that has least so far.
class MatrixOwners {
 public:
  explicit MatrixOwners(int ranks) : flops_(static_cast<std::size_t>(ranks)) {}

  // The owners of the tensors of one unit, whose work goes on top of that of the units before.
  std::vector<int> assign(const std::vector<double>& flops);

 private:
  std::vector<double> flops_;  // of each rank, so far
};

}  // namespace lt
