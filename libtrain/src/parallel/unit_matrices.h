// UnitMatrices: one unit's part in the update of an optimizer that looks at whole matrices: owners, buffers, exchanges.
// Each rank makes the directions of its part. Where the optimizer is sharded they travel to the owner of each tensor,
// which transforms it, and back again; where it is replicated every rank transforms all of them in place. Every rank
// allocates what the rank that owns most needs, so all ranks hold the same bytes. The bits depend on no strategy.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "libtrain/optim/optimizer_groups.h"
#include "optim/least_loaded.h"
#include "parallel/gathered_parameters.h"

namespace lt {

class UnitMatrices {
 public:
  // `part` is what this rank updates of the unit; `groups` and `sharding` outlive it.
  UnitMatrices(const UnitLayout& layout, const OptimizerGroups& groups, const Sharding& sharding, UnitPart part,
               LeastLoaded& owners);

  bool exist() const { return !tensors_.empty(); }
  // The bytes of each lane's room, for the rank that needs most.
  const std::array<Size, kTransformLanes>& room_bytes() const { return room_bytes_; }
  // The directions of this rank's part, for MatrixUpdate::begin() to write.
  const Tensor& make_directions();
  // To the owners, what they do, and back, in this order. Each waits on the compute stream for what the one before has
  // under way, so the stages of other units stand between them.
  void send();
  void transform(const TransformLanes& lanes);
  void send_back();
  // What the weights of the part change by.
  Tensor finish();

 private:
  // A parameter of matrices, in elements of the unit.
  struct Matrices {
    Size begin, end;
    MatrixStack stack;
    const MatrixUpdate* update;
    int owner;
    Size place;  // in the buffer of the owner's tensors
  };

  // What a rank transforms in one call.
  struct Owned {
    const MatrixUpdate* update;
    std::vector<std::size_t> tensors;
    std::vector<MatrixStack> stacks;
  };

  bool travel() const { return part_.size < padded_; }
  std::vector<Owned> owned_by(int rank) const;
  // The messages between parts and owners that this rank has as the holder of a part, and as an owner.
  std::vector<Message> of_parts() const;
  std::vector<Message> of_owners() const;
  void wait_for_exchange();

  std::string name_;
  const Sharding& sharding_;
  UnitPart part_;
  Size padded_;
  DType dtype_;
  std::vector<Matrices> tensors_;
  Size elements_ = 0;  // of all matrices
  std::vector<Owned> owned_;
  Size own_elements_ = 0;  // of the rank that owns most
  std::array<Size, kTransformLanes> room_bytes_{};

  Tensor directions_, own_;  // while the optimizer is at work
  Work exchange_;
  std::array<Event, kTransformLanes> transformed_;  // the ends of transform() on the lanes
};

}  // namespace lt
