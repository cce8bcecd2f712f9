// GatheredParameters: one flat buffer of a unit's parameters in the compute dtype, either whole on each rank or a shard
// that is gathered while in use. A unit has one for trained parameters and one for frozen ones.
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
  // Allocates the memory; in a window that is a collective.
  void make();

  const UnitLayout& layout() const { return layout_; }
  bool exist() const { return !layout_.ranges().empty(); }
  // This rank's shard, whether or not parameters are sharded.
  UnitPart shard() const { return {shard_begin_, shard_}; }
  // The part that this rank holds. values() is a range of it.
  UnitPart held() const;
  Tensor values(UnitPart part) const { return compute_.narrow(0, part.begin - held().begin, part.size); }
  // In the order of layout().ranges().
  std::vector<Tensor>& tensors() { return tensors_; }

  // Makes the model use these parameters.
  void bind_model();
  // Around a step or an evaluation: with `in_e4m3` it gathers in e4m3, if that is possible and useful, otherwise in the
  // compute dtype, as outside of them.
  void begin_gathers(bool in_e4m3) { in_e4m3_ = in_e4m3 && quantized_; }
  void end_gathers();
  // Whether an operation has read values of what was gathered in e4m3, on meta.
  bool values_were_read() const { return quantized_ && quantized_->values_were_read(); }
  // start_gather() and finish_gather() do nothing if they are not needed. make_room() takes the memory that
  // start_gather() would take, for callers that must not fail there.
  void make_room();
  // Starts what start_gather() has to wait for. May be left out.
  void prepare_gather();
  void start_gather();
  void finish_gather();
  void release();
  // Frees like release(), but leaves a gather in flight alone. Only during stack unwinding.
  void abandon();
  // If parameters are replicated and each rank has changed its shard, sends it to the others; finish_gather() ends it.
  // With `gathers_late` it starts at the beginning of the next step, in start_late_gather().
  void start_update_gather();
  void start_late_gather();
  // After the launch of a graph that ended with a late start_update_gather().
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
  Tensor full_;                               // room for the gathered parameters; compute_ if replicated
  std::optional<QuantizedGather> quantized_;  // if it is useful
  bool in_e4m3_ = false;                      // now, by quantized_; full_ stays empty
  bool are_trained_, gathers_late_;
  bool gathered_ = false;  // they are in full_ or quantized_, or in flight
  bool update_gather_is_late_ = false;
  Work gather_;
};

}  // namespace lt::parallel
