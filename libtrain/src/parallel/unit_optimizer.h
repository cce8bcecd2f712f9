// UnitOptimizer: the optimizer states of this rank's part of one unit, and their updates. Only this class allocates
// states. Neighbouring parameters whose optimizers keep the same states share one flat buffer per state. Every rank
// allocates as much as the rank that needs most, so all ranks hold the same bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"
#include "parallel/gathered_parameters.h"

namespace lt::parallel {

class UnitOptimizer {
 public:
  // `groups` must outlive it. `weights` is the dtype of the updated weights, `seed` the seed of stochastic rounding.
  UnitOptimizer(const UnitLayout& layout, const OptimizerGroups& groups, UnitPart part, DType weights, Device device,
                std::uint64_t seed);

  // One update of the part's parameters with element-wise optimizers. All tensors have the part's size. `copy` receives
  // the weights in the compute dtype, or is undefined. `numbers` has one entry per group.
  void update(const Tensor& weights, const Tensor& gradient, const Tensor& copy, const StepNumbers* numbers) const;
  // The first and the last stage of an update of the other parameters (MatrixUpdate).
  void begin_matrices(const Tensor& gradient, const Tensor& directions, const StepNumbers* numbers) const;
  void end_matrices(const Tensor& weights, const Tensor& changes, const Tensor& copy, const StepNumbers* numbers) const;

  // Calls visit(kind, values) for each state of elements [begin, end) of the unit. They must lie in one parameter and
  // in this part.
  void for_each_state(Size begin, Size end, const std::function<void(const std::string&, const Tensor&)>& visit) const;

 private:
  // Consecutive parameters whose optimizers keep the same states, in elements of the unit.
  struct Stretch {
    Size begin, end;
    std::vector<StateKind> kinds;
    std::vector<Tensor> states;  // of this part; longer than the part on ranks that need less than others
  };
  // The elements of one update call.
  struct Cut {
    Size begin, end;
    std::size_t group, stretch;
    RoundingSegments segments;  // empty if neither weights nor states are bf16
  };

  Tensor part_of(const Stretch& stretch, std::size_t state, Size begin, Size end) const;
  const Optimizer& optimizer_of(const Cut& cut) const { return groups_.groups[cut.group].optimizer; }
  // The tensors of an update, all of the part's size; some are undefined.
  struct Arrays {
    Tensor weights, gradient, direction, copy;
  };
  // Runs `call` on the elements of a cut.
  void run(const Cut& cut, const Arrays& arrays, const StepNumbers* numbers,
           const std::function<void(const UpdateRange& range)>& call) const;

  const OptimizerGroups& groups_;
  UnitPart part_;
  Size decayed_;
  std::vector<Stretch> stretches_;
  std::vector<Cut> cuts_;
};

}  // namespace lt::parallel
