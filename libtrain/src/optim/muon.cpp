// Muon as an optimizer row.
#include "kernels/muon.h"

#include <string>

#include "libtrain/error.h"
#include "libtrain/optim/optimizer.h"
#include "optim/newton_schulz.h"
#include "optim/row.h"
#include "tensor/dispatch.h"

namespace lt {

Muon::operator Optimizer() const {
  optim::require_from_0("Muon::weight_decay", weight_decay);
  if (!(momentum >= 0 && momentum < 1)) {
    throw UsageError("optim", "Muon::momentum: expected a number in [0, 1), got " + std::to_string(momentum));
  }
  Optimizer row{.name = "muon", .states = {{"momentum", state_dtype}}, .lr = lr, .clip = clip, .masters = masters};
  MatrixUpdate& update = row.matrices.emplace();
  update.begin = [momentum = momentum](const UpdateRange& range) {
    tensor::dispatch(range.gradient.device(), [&](auto stream) {
      const kernels::MuonDirection arrays{range.states[0].data(), range.states[0].dtype(), range.gradient.data<float>(),
                                          range.direction.data(), range.direction.dtype(), range.gradient.elements(),
                                          range.rounding};
      kernels::muon_direction(stream, arrays, momentum, range.numbers);
    });
  };
  update.transform = optim::orthogonalise;
  update.workspace_bytes = optim::orthogonalise_workspace_bytes;
  update.end = [weight_decay = weight_decay](const UpdateRange& range) {
    tensor::dispatch(range.weights.device(), [&](auto stream) {
      kernels::MuonUpdate arrays{
          range.weights.data(), range.weights.dtype(),    range.direction.data(), range.direction.dtype(), nullptr,
          DType::bf16,          range.weights.elements(), range.rounding};
      if (range.copy.defined()) arrays.copy_N = range.copy.data(), arrays.copy_dtype = range.copy.dtype();
      kernels::muon_update(stream, arrays, weight_decay, range.numbers);
    });
  };
  update.flops = optim::orthogonalise_flops;
  return row;
}

}  // namespace lt
