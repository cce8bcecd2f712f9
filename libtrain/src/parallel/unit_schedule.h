// UnitSchedule: decides when each unit is gathered, freed and reduced. The model calls it around every unit's passes.
//   forward of u:  gathers u+1 while u computes, then frees u if the strategy reshards; the last unit stays gathered
//   for the backward pass.
//   backward of u: gathers u-1, then computes u, frees it and starts to reduce its gradients.
// So at most two blocks are gathered at any moment if the strategy reshards, and at most two blocks hold full
// gradients. A unit whose parameters another one borrows (tied embeddings) stays gathered in between, and is reduced
// once, at its own backward. The backward pass ends with the first trained unit; later frozen units pass gradients on.
#pragma once

#include <deque>
#include <vector>

#include "libtrain/parallel/engine.h"
#include "parallel/sharded_unit.h"

namespace lt::parallel {

class UnitSchedule final : public nn::UnitObserver {
 public:
  // `units`, `infos` and `sharding` must outlive it.
  UnitSchedule(std::deque<ShardedUnit>& units, const std::vector<nn::UnitInfo>& infos, const ParallelOptions& options,
               const Sharding& sharding);

  // Begin a pass without gradients, or a micro-batch of a step.
  void begin_evaluation();
  void begin_micro_batch(Size micro_step, bool is_last);
  // True during the last unit's forward pass in training. The unit's gradients can already be written then.
  const bool& runs_last_unit() const { return runs_last_unit_; }
  // Throws UsageError if the model did not run its units in order.
  void end_pass();
  void finish_reductions();

  void before_forward(int unit) override;
  void after_forward(int unit) override;
  void before_backward(int unit) override;
  void after_backward(int unit) override;
  Recompute recompute(int unit) const override;
  bool wants_backward(int unit) const override { return unit >= first_trained_; }

 private:
  ShardedUnit& at(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  int last() const { return static_cast<int>(units_.size()) - 1; }
  void expect_forward(int unit);
  void bind_gradients(int unit);
  // Finishes the oldest reductions until at most `outstanding` remain.
  void finish_reductions_but(std::size_t outstanding);

  std::deque<ShardedUnit>& units_;
  const std::vector<nn::UnitInfo>& infos_;
  ParallelOptions options_;
  const Sharding& sharding_;
  std::vector<bool> borrowed_;
  int first_trained_ = 0;         // no unit before it wants a gradient
  std::vector<int> block_index_;  // index of each unit among the blocks; -1 for other units

  Size micro_step_ = 0;  // of the present micro-batch
  bool training_ = false, last_micro_batch_ = true, runs_last_unit_ = false;
  int next_forward_ = 0;
  struct Reduction {
    int unit;
    bool is_last;  // the unit's last reduction in the step
  };
  std::deque<Reduction> reducing_;  // oldest first
  int added_by_replicas_ = -1;      // the unit whose sum over replicas may be in flight; -1: none
};

}  // namespace lt::parallel
