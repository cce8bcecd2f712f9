// UnitMatrices: one unit's share in the update of an optimizer that looks at whole matrices: owners, buffers,
// exchanges. Each rank makes the directions of its part. If the optimizer is sharded, they travel to the owner of each
// tensor, which transforms it, and back; if it is replicated, every rank transforms all of them in place. Every rank
// allocates as much as the rank that owns most, so all hold the same bytes. The bits do not depend on the strategy.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"
#include "optim/least_loaded.h"
#include "parallel/gathered_parameters.h"

namespace lt::parallel {

class UnitMatrices {
 public:
  // `part` is the part of the unit that this rank updates. `groups` and `sharding` must outlive it.
  UnitMatrices(const UnitLayout& layout, const OptimizerGroups& groups, const Sharding& sharding, UnitPart part,
               optim::LeastLoaded& owners);

  bool exist() const { return !tensors_.empty(); }
  // The bytes of each lane's room, for the rank that needs most.
  const std::array<Size, kTransformLanes>& room_bytes() const { return room_bytes_; }
  // Allocates the directions of this rank's part, for MatrixUpdate::begin() to write.
  const Tensor& make_directions();
  // Sends directions to the owners, transforms them there, and sends the changes back; call them in this order. Each
  // stage makes the compute stream wait for the previous stage, so the stages of other units run in between.
  void send();
  void transform(const TransformLanes& lanes);
  void send_back();
  // Returns the changes of the part's weights.
  Tensor finish();

 private:
  // A parameter made of matrices, in elements of the unit.
  struct Matrices {
    Size begin, end;
    MatrixStack stack;
    const MatrixUpdate* update;
    int owner;
    Size place;  // in the buffer of the owner's tensors
  };

  // Tensors that a rank transforms in one call.
  struct Owned {
    const MatrixUpdate* update;
    std::vector<std::size_t> tensors;
    std::vector<MatrixStack> stacks;
  };

  bool travel() const { return part_.size < padded_; }
  std::vector<Owned> owned_by(int rank) const;
  // This rank's messages between parts and owners, as the holder of a part and as an owner.
  std::vector<Message> of_parts() const;
  std::vector<Message> of_owners() const;
  void wait_for_exchange();

  std::string name_;
  const Sharding& sharding_;
  UnitPart part_;
  Size padded_;
  DType dtype_;
  std::vector<Matrices> tensors_;
  Size elements_ = 0;  // in all matrices
  std::vector<Owned> owned_;
  Size own_elements_ = 0;  // for the rank that owns most
  std::array<Size, kTransformLanes> room_bytes_{};

  Tensor directions_, own_;  // exist while the optimizer runs
  Work exchange_;
  std::array<Event, kTransformLanes> transformed_;  // the ends of transform() on the lanes
};

}  // namespace lt::parallel
