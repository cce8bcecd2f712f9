// ShardedUnit: the flat buffers of one unit under a strategy, and their use in a step. Only this class turns placements
// into buffers and collectives:
//
//                   replicated                                sharded
//   parameters      one full buffer                           a shard; gathered into a full buffer while in use
//   gradients       one full buffer, reduced in place         a full buffer during backward, reduced into a shard
//   optimizer       master and states in full                 master and states of the shard
//
// Masters are master weights in f32. If the compute dtype is f32, or the optimizer has no masters, the parameter itself
// is the master: the full buffer, a view of its shard, or the sharded parameter. Frozen parameters have separate
// buffers, without gradients and optimizer.
#pragma once

#include <array>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/tensor/shard_map.h"
#include "parallel/gathered_parameters.h"
#include "parallel/partial_sums.h"
#include "parallel/sharding.h"
#include "parallel/unit_matrices.h"
#include "parallel/unit_optimizer.h"

namespace lt::parallel {

class ShardedUnit {
 public:
  // Allocates the memory that needs no other rank. `sharding` and `groups` must outlive it. `owners` assigns the unit's
  // matrices to ranks, taking the load of earlier units into account. `gathers_late`: see GatheredParameters.
  ShardedUnit(const std::string& name, const std::vector<nn::NamedParameter>& parameters, const Sharding& sharding,
              const OptimizerGroups& groups, optim::LeastLoaded& owners, std::uint64_t seed, bool gathers_late);
  ~ShardedUnit();
  ShardedUnit(const ShardedUnit&) = delete;
  ShardedUnit& operator=(const ShardedUnit&) = delete;
  // Call next. Allocates the memory that peers may write: parameters in use and replicated gradients. In a window that
  // is a collective.
  void make_shared();
  // The bytes of Sharding::in_place that make_shared() takes.
  Size bytes_in_place() const;

  // Elements, padding included: of all parameters, and of the trained ones.
  Size padded() const { return trained_.layout().padded() + frozen_.layout().padded(); }
  Size padded_trained() const { return trained_.layout().padded(); }
  // True if any of its parameters is trained.
  bool is_trained() const { return trained_.exist(); }
  // The bytes of workspace that each lane of transform_matrices() needs.
  const std::array<Size, kTransformLanes>& workspace_bytes() const { return matrices_.workspace_bytes(); }
  // Makes the model use this unit's parameters.
  void bind_model();

  // See GatheredParameters.
  void begin_gathers(bool in_e4m3);
  void end_gathers();
  bool values_were_read() const { return trained_.values_were_read() || frozen_.values_were_read(); }

  // Parameters; see GatheredParameters.
  void allocate();
  void prepare_gather();
  void start_gather();
  void finish_gather();
  void release();
  void abandon();  // see GatheredParameters

  // Gradients, for trained units only. bind_gradients() points the parameters' slots into the full buffer.
  // complete_gradients() zeroes gradients that no operation wrote. Slots accept contributions only between the two.
  void bind_gradients(bool first_micro_batch);
  void complete_gradients();
  // Adds a micro-step's gradients over ranks, and to earlier micro-steps of this step. With `is_last` also starts
  // sum_squares() if no further reduction follows.
  void start_reduce(Size micro_step, bool is_last);
  // If replicas add after every micro-batch, also starts their sum.
  void finish_reduce();
  void finish_replica_sum();
  bool reducing() const { return reduction_.pending(); }
  // Call after the step's last reduction: ends the sum across replicas, and gathers to all ranks if the optimizer is
  // replicated.
  void start_gradient_exchange();
  void finish_gradient_exchange();

  // Sets the tensor for the sum of squares of this rank's part of the reduced gradient: [1], f64.
  void keep_squares_in(const Tensor& squares) { squares_ = squares; }
  // Computes that sum, unless the last reduction has.
  void sum_squares() const;

  // The update. The optimizers run on this rank's part, or on everything if they are replicated. Element-wise
  // optimizers finish in begin_update(). Each matrix is transformed by the rank that owns it, and updated by
  // end_update(). After that start_update_gather() sends the new values to the other ranks; finish_gather() ends it.
  void begin_update(const StepNumbers* numbers);
  void transform_matrices(const TransformLanes& lanes);
  void return_matrices();
  void end_update(const StepNumbers* numbers);
  void start_update_gather() { trained_.start_update_gather(); }
  // Call it at the beginning of a step. Starts the gather that start_update_gather() deferred.
  void start_late_gather() { trained_.start_late_gather(); }
  void defer_late_gather() { trained_.defer_late_gather(); }
  // For a step that must wait for every collective that it started. Call it at its end.
  void finish_early_gather() {
    if (!trained_.gathers_late()) trained_.finish_gather();
  }

  // Writes initial values into the masters.
  void initialise(std::uint64_t seed);
  // Copies the masters to the parameters in the compute dtype.
  void refresh_copies();
  void add_to(ShardMap& map) const;
  // For trained units only. Adds this rank's ranges of the reduced gradient, of kind "gradient".
  void add_gradients_to(std::vector<StateRange>& ranges) const;

 private:
  void close_gradients();
  SumOfSquares sum_of_squares() const;
  // The elements that no other rank writes: the shard, divided equally among the replicas.
  UnitPart own_part(const GatheredParameters& parameters) const;
  bool reduction_ends_on_this_group() const { return sharding_.replicas.size() == 1; }
  bool is_sharded(Placement placement) const { return placement == Placement::sharded; }
  Tensor shard_of(const Tensor& full) const { return full.narrow(0, trained_.shard().begin, trained_.shard().size); }
  // The elements that the optimizers change (this rank's part or all), their gradient, and their copy in the compute
  // dtype.
  UnitPart updated_part() const;
  const Tensor& updated_gradient() const;
  Tensor updated_copy() const { return has_masters() ? trained_.values(updated_part()) : Tensor(); }
  // True if the master weights are separate from the parameters in use.
  bool has_masters() const { return master_dtype_ != sharding_.dtype; }

  const Sharding& sharding_;
  DType master_dtype_;
  GatheredParameters trained_, frozen_;
  UnitOptimizer optimizer_;
  UnitMatrices matrices_;

  Tensor master_;         // full or shard, by the optimizer's placement
  Tensor gradient_;       // f32, full; if sharded, only between bind_gradients() and finish_reduce()
  Tensor gradient_part_;  // this rank's part of the reduced gradient
  PartialSums sums_;      // of gradient_part_, or of this replica's share of it if replicas add after every micro-batch
  PartialSums::Place replica_place_;  // of the leaf that replicas add
  Tensor squares_;                    // sum of squares of gradient_part_: [1], f64
  bool gradients_bound_ = false;
  Work reduction_, replica_sum_, exchange_;
};

}  // namespace lt::parallel
