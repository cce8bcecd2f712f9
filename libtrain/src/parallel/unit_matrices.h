// UnitMatrices: what optimizers that look at matrices as a whole need of one unit. Each rank makes the directions of
// its part. Where the optimizer is sharded they travel to the owner of each tensor, which transforms it, and back
// again; where it is replicated every rank transforms all of them in place. Every rank allocates what the rank that
// owns most needs, so all ranks hold the same bytes. The bits depend on no strategy.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "libtrain/optimizer_groups.h"
#include "parallel/gathered_parameters.h"
#include "parallel/matrix_owners.h"

namespace lt {

class UnitMatrices {
 public:
  // `part` is what this rank updates of the unit; `groups` and `sharding` outlive it.
  UnitMatrices(const UnitLayout& layout, const OptimizerGroups& groups, const Sharding& sharding, UnitPart part,
               MatrixOwners& owners);

  bool exist() const { return !tensors_.empty(); }
  // Of the part: what MatrixUpdate::begin() writes.
  const Tensor& make_directions();
  // In this order, with other units' between them: to the owners, what they do, and back. None of it waits for what the
  // one before it has under way on the device.
  void send();
  void transform();
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
    Size room_bytes;
  };

  bool travel() const { return part_.size < padded_; }
  std::vector<Owned> owned_by(int rank) const;
  // What travels between this rank and others: towards owners, or back from them, seen from the parts and from the
  // owners.
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
  Size own_elements_ = 0, room_bytes_ = 0;  // of the rank that needs most

  Tensor directions_, own_, room_;  // while the optimizer is at work
  Work exchange_;
  std::array<Event, 2> transformed_;  // of each stream
};

}  // namespace lt
