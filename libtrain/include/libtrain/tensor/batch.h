// The input of one training step on one rank.
#pragma once

#include "libtrain/api.h"
#include "libtrain/kernels/ignored_target.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// The size of one rank's share of the global batch, and the rank's index among all ranks.
struct BatchShape {
  Size micro_batch = 1;  // samples per forward and backward pass
  Size accum = 1;        // micro-batches per step
  Size seq = 1;          // tokens per sample
  int rank = 0, ranks = 1;
  // Which rows of the global batch a rank has. False: consecutive ones. True (Determinism::elastic): micro-batch k of
  // rank r is micro-batch k * ranks + r of the global batch.
  bool interleaved = false;

  Size samples() const { return micro_batch * accum; }
  Size global_samples() const { return samples() * ranks; }
  Size global_tokens() const { return global_samples() * seq; }
  // Returns the index in the global batch of this rank's row `row`, of [0, samples()). The rows of a micro-batch have
  // consecutive indices.
  Size sample_of(Size row) const {
    if (!interleaved) return rank * samples() + row;
    return (row / micro_batch * ranks + rank) * micro_batch + row % micro_batch;
  }
};

// This rank's rows of the global batch (BatchShape::sample_of()), ordered by micro-batch. Dimension 0 has samples =
// accum * micro_batch rows. For language models, inputs and targets are i32 [samples, seq], and a target is the next
// token or kIgnoredTarget. Other models may use any shapes.
struct Batch {
  Tensor inputs = {}, targets = {};
  // i32 [samples, seq]: for each token, the position in its row at which its document begins. Undefined: each row is
  // one document.
  Tensor document_starts = {};

  // Returns a batch of f(tensor) for each tensor, including undefined ones.
  template <class F>
  Batch map(F&& f) const {
    return {f(inputs), f(targets), f(document_starts)};
  }
};

}  // namespace lt
