// What one step of training consumes on one rank.
#pragma once

#include "libtrain/tensor/tensor.h"

namespace lt {

// Sizes of a rank's share of the global batch and its place in it.
struct BatchShape {
  Size micro_batch = 1;  // samples of one forward and backward
  Size accum = 1;        // micro-batches of a step
  Size seq = 1;          // tokens of a sample
  int rank = 0, ranks = 1;

  Size samples() const { return micro_batch * accum; }
  Size global_samples() const { return samples() * ranks; }
  Size global_tokens() const { return global_samples() * seq; }
};

// Rows of this rank, micro-batches in order: dimension 0 is accum * micro_batch. For language models both tensors are
// i32 [samples, seq] and targets are the next tokens. A model of one's own may use any shapes.
struct Batch {
  Tensor inputs, targets;
};

}  // namespace lt
