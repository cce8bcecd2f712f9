// GatheredParameters: a unit's parameters in the compute dtype, in one flat buffer. Each rank holds the full buffer, or
// a shard that is gathered while in use. A unit has one for trained and one for frozen parameters.
#pragma once

#include <optional>
#include <vector>

#include "parallel/layout.h"
#include "parallel/quantized_gather.h"
#include "parallel/sharding.h"

namespace lt::parallel {

class GatheredParameters {
 public:
  // `gathers_late`: see start_update_gather().
  GatheredParameters(UnitLayout layout, const Sharding& sharding, bool are_trained, bool gathers_late = false);
  ~GatheredParameters();
  GatheredParameters(const GatheredParameters&) = delete;  // quantized_ refers to a member
  GatheredParameters& operator=(const GatheredParameters&) = delete;
  // Allocates the memory. In a window (symmetric memory that peers can write) that is a collective.
  void make();

  const UnitLayout& layout() const { return layout_; }
  bool exist() const { return !layout_.ranges().empty(); }
  // This rank's shard, also if parameters are replicated.
  UnitPart shard() const { return {shard_begin_, shard_}; }
  // The part that this rank holds: its shard, or everything. The part passed to values() must lie in it.
  UnitPart held() const;
  Tensor values(UnitPart part) const { return compute_.narrow(0, part.begin - held().begin, part.size); }
  // In the order of layout().ranges().
  std::vector<Tensor>& tensors() { return tensors_; }

  // Makes the model use these parameters.
  void bind_model();
  // Call these around a step or an evaluation. With `in_e4m3`, gathers in between use e4m3 if that is possible and
  // useful. All other gathers use the compute dtype.
  void begin_gathers(bool in_e4m3) { in_e4m3_ = in_e4m3 && quantized_; }
  void end_gathers();
  // On meta: true if an operation has read values of parameters that were gathered in e4m3.
  bool values_were_read() const { return quantized_ && quantized_->values_were_read(); }
  // Allocates the memory that start_gather() would allocate, for callers that must not fail there.
  void allocate();
  // Starts work that start_gather() would have to wait for. Optional.
  void prepare_gather();
  // Both do nothing if the parameters are already gathered.
  void start_gather();
  void finish_gather();
  void release();
  // Like release(), but does not wait for a gather in flight. Call it only during stack unwinding.
  void abandon();
  // If parameters are replicated and each rank has updated its shard, gathers the shards; finish_gather() ends it. With
  // `gathers_late` the gather starts at the beginning of the next step, in start_late_gather().
  void start_update_gather();
  void start_late_gather();
  // Call it after the launch of a graph that ended with a late start_update_gather().
  void defer_late_gather() {
    if (gathers_late_) start_update_gather();
  }
  bool gathers_late() const { return gathers_late_; }

 private:
  bool are_sharded() const { return sharding_.strategy.parameters == Placement::sharded; }
  void bind(const Tensor& full);
  void free_full();

  UnitLayout layout_;
  const Sharding& sharding_;
  Size shard_, shard_begin_;
  std::vector<Tensor> tensors_;               // the tensors that the model holds
  Tensor compute_;                            // the values that this rank holds
  Tensor full_;                               // the gathered parameters; the same as compute_ if replicated
  std::optional<QuantizedGather> quantized_;  // nullopt if it is not useful
  bool in_e4m3_ = false;                      // true: quantized_ gathers now, and full_ stays empty
  bool are_trained_, gathers_late_;
  bool gathered_ = false;  // true: the parameters are in full_ or quantized_, or in flight
  bool update_gather_is_late_ = false;
  Work gather_;
};

}  // namespace lt::parallel
