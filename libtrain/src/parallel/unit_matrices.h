// UnitMatrices: updates one unit by an optimizer that needs whole matrices (MatrixUpdate). Each rank computes the
// directions of its part. If the optimizer is sharded, each tensor has an owner: a rank that receives the tensor's
// directions, transforms them and sends the changes back. If it is replicated, every rank transforms all tensors in
// place. Every rank allocates the bytes of the rank that owns most, so all ranks hold the same bytes. Results are
// bit-identical under every strategy.
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
  // The bytes of each lane's workspace, on the rank that needs most.
  const std::array<Size, kTransformLanes>& workspace_bytes() const { return workspace_bytes_; }
  // Allocates the directions of this rank's part, for MatrixUpdate::begin() to write.
  const Tensor& make_directions();
  // Call these in this order: they send directions to the owners, transform them there, and send the changes back. Each
  // stage makes the compute stream wait for the previous stage. Stages of other units may run in between.
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
    Size place;  // first element in the owner's buffer
  };

  // Tensors that a rank transforms in one call.
  struct Owned {
    const MatrixUpdate* update;
    std::vector<std::size_t> tensors;
    std::vector<MatrixStack> stacks;
  };

  bool travel() const { return part_.size < padded_; }
  std::vector<Owned> owned_by(int rank) const;
  // This rank's messages as the holder of a part, and as an owner.
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
  Size own_elements_ = 0;  // of the rank that owns most
  std::array<Size, kTransformLanes> workspace_bytes_{};

  Tensor directions_, own_;  // exist while the optimizer runs
  Work exchange_;
  std::array<Event, kTransformLanes> transformed_;  // the ends of transform() on the lanes
};

}  // namespace lt::parallel
