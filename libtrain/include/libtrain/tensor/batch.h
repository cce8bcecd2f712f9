// The input of one training step on one rank.
#pragma once

#include "libtrain/api.h"
#include "libtrain/kernels/ignored_target.h"
#include "libtrain/tensor/tensor.h"

namespace LT_API lt {

// Sizes of a rank's share of the global batch and its place in it.
struct BatchShape {
  Size micro_batch = 1;  // samples per forward and backward pass
  Size accum = 1;        // micro-batches per step
  Size seq = 1;          // tokens per sample
  int rank = 0, ranks = 1;

  Size samples() const { return micro_batch * accum; }
  Size global_samples() const { return samples() * ranks; }
  Size global_tokens() const { return global_samples() * seq; }
};

// This rank's rows, micro-batches in order: dimension 0 is accum * micro_batch. For language models inputs and targets
// are i32 [samples, seq], and targets are the next tokens, or kIgnoredTarget. Other models may use any shapes.
struct Batch {
  Tensor inputs, targets;
  // i32 [samples, seq]: for each token, the position in its row where its document begins. Undefined: each row is one
  // document.
  Tensor document_starts = {};

  // Returns f(tensor) for each of the tensors, defined or not.
  template <class F>
  Batch map(F&& f) const {
    return {f(inputs), f(targets), f(document_starts)};
  }
};

}  // namespace lt
