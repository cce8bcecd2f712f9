// ShardedUnit: the flat buffers of one unit under a strategy, and what happens to them in a step. Here, and only here,
// placements turn into buffers and collectives:
//
//                   replicated                                sharded
//   parameters      one full buffer                           a shard; gathered into a full buffer while in use
//   gradients       one full buffer, reduced in place         a full buffer during backward, reduced into a shard
//   optimizer       master and states in full                 master and states of the shard
//
// In f32, and where the optimizer has no masters, the master is the parameter itself: the full buffer, its shard a view
// of it, or the sharded parameter. Frozen parameters have buffers of their own, without gradients and optimizer.
#pragma once

#include <array>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/tensor/shard_map.h"
#include "parallel/gathered_parameters.h"
#include "parallel/sharding.h"
#include "parallel/unit_matrices.h"
#include "parallel/unit_optimizer.h"

namespace lt {

class ShardedUnit {
 public:
  // Takes the memory that is this rank's own affair. `sharding` and `groups` must outlive it. `owners` assigns the
  // unit's matrices to ranks, with the load of earlier units in mind.
  ShardedUnit(const std::string& name, const std::vector<nn::NamedParameter>& parameters, int world_size,
              const Sharding& sharding, const OptimizerGroups& groups, LeastLoaded& owners, std::uint64_t seed);
  // Then that of the parameters in use; in a window that is a collective.
  void make_parameters();

  // Elements with their padding: of all parameters, and of those that are trained.
  Size padded() const { return trained_.layout().padded() + frozen_.layout().padded(); }
  Size padded_trained() const { return trained_.layout().padded(); }
  // Whether any of its parameters is trained.
  bool is_trained() const { return trained_.exist(); }
  // What the lanes of transform_matrices() need.
  const std::array<Size, kTransformLanes>& room_bytes() const { return matrices_.room_bytes(); }
  // The model's parameters become those of this unit.
  void bind_model();

  // Parameters. start_gather() and finish_gather() do nothing where they are not needed. make_room() takes the memory
  // that start_gather() would take, for those who may not fail there.
  void make_room();
  void start_gather();
  void finish_gather();
  void release();

  // Gradients, of units that are trained. bind: the slots of the parameters point into the full buffer. complete: what
  // no operation wrote is zero.
  void bind_gradients(bool first_micro_batch);
  void complete_gradients();
  void start_reduce(bool first_reduction);
  void finish_reduce();
  bool reducing() const { return reduction_.pending(); }
  // After the step's last reduction: across replicas, and to all ranks where the optimizer is replicated.
  void start_gradient_exchange();
  void finish_gradient_exchange();

  // partial[0] = sum of the squares of this rank's part of the reduced gradient.
  void sum_squares(double* partial) const;

  // Optimizers, on this rank's part or all; then other ranks get the new values (start_update_gather, ended by
  // finish_gather()). What updates elements alone is over after begin_update(); matrices are transformed as a whole by
  // the ranks that own them, and updated by end_update().
  void begin_update(const StepNumbers* numbers);
  void transform_matrices(const TransformLanes& lanes);
  void return_matrices();
  void end_update(const StepNumbers* numbers);
  void start_update_gather() { trained_.start_update_gather(); }
  // At the beginning of a step: what start_update_gather() put off.
  void start_late_gather() { trained_.start_late_gather(); }

  // Writes initial values into the masters.
  void initialise(std::uint64_t seed);
  // The copies in the compute dtype follow the masters.
  void refresh_copies();
  void add_to(ShardMap& map) const;

 private:
  bool is_sharded(Placement placement) const { return placement == Placement::sharded; }
  Tensor shard_of(const Tensor& full) const { return full.narrow(0, trained_.shard().begin, trained_.shard().size); }
  // What the optimizers change: this rank's part or all; the gradient of that, and the copy in use of what they change.
  UnitPart updated_part() const;
  const Tensor& updated_gradient() const;
  Tensor updated_copy() const { return has_masters() ? trained_.values(updated_part()) : Tensor(); }
  // Whether the weights that the optimizer changes are others than those in use.
  bool has_masters() const { return master_dtype_ != sharding_.dtype; }

  const Sharding& sharding_;
  DType master_dtype_;
  GatheredParameters trained_, frozen_;
  UnitOptimizer optimizer_;
  UnitMatrices matrices_;

  Tensor master_;         // full or shard, by the placement of the optimizer
  Tensor gradient_;       // f32, full; where sharded only between bind_gradients() and finish_reduce()
  Tensor gradient_part_;  // this rank's part of the reduced gradient
  bool gradients_bound_ = false;
  Work reduction_, exchange_;
};

}  // namespace lt
