// GatheredParameters: one flat buffer of a unit's parameters in the compute dtype, whole on each rank or a shard that
// is gathered while in use. A unit has one of parameters that are trained and one of frozen ones.
#pragma once

#include <vector>

#include "parallel/layout.h"
#include "parallel/sharding.h"

namespace lt {

// One of equal parts of a unit, in elements of it; or the whole.
struct UnitPart {
  Size begin, size;
  Size end() const { return begin + size; }
};

class GatheredParameters {
 public:
  GatheredParameters(UnitLayout layout, const Sharding& sharding, bool are_trained);
  // Takes the memory; in a window that is a collective.
  void make();

  const UnitLayout& layout() const { return layout_; }
  bool exist() const { return !layout_.ranges().empty(); }
  // This rank's shard, whatever is sharded.
  UnitPart shard() const { return {shard_begin_, shard_}; }
  // What this rank holds of them, and elements of that.
  UnitPart held() const;
  Tensor values(UnitPart part) const { return compute_.narrow(0, part.begin - held().begin, part.size); }
  // By layout().ranges().
  std::vector<Tensor>& tensors() { return tensors_; }

  // The model's parameters become these.
  void bind_model();
  // start_gather() and finish_gather() do nothing where they are not needed. make_room() takes the memory that
  // start_gather() would take, for those who may not fail there.
  void make_room();
  void start_gather();
  void finish_gather();
  void release();
  // Where parameters are replicated and each rank has changed its shard: the others get it, ended by finish_gather().
  void start_update_gather();
  // At the beginning of a step: what start_update_gather() put off.
  void start_late_gather();

 private:
  bool are_sharded() const { return sharding_.strategy.parameters == Placement::sharded; }
  void bind(const Tensor& full);

  UnitLayout layout_;
  const Sharding& sharding_;
  Size shard_, shard_begin_;
  std::vector<Tensor> tensors_;  // what the model holds
  Tensor compute_;               // what this rank holds
  Tensor full_;                  // room for the gathered parameters; where replicated, compute_
  bool gathered_ = false;        // they are in it, or on their way
  bool update_gather_is_late_ = false;
  Work gather_;
};

}  // namespace lt
