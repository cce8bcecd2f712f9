// PartialSums: adds the micro-steps of a step, in the order that ParallelOptions::deterministic asks for. A micro-step
// is one micro-batch on every rank; its sum over ranks is a leaf here.
//
// Running sum:  ((s0 + s1) + s2) + s3 ...
// Tree (Determinism::elastic):  neighbours, then pairs of pairs; the last of an odd number goes up unchanged. It
// continues the tree over ranks, so the bits do not depend on how many of the leaves are ranks.
// The tree keeps partial sums of 1, 2, 4, ... leaves. They work like the digits of a binary counter: a new leaf is
// added to all partial sums that it carries over.
#pragma once

#include <vector>

#include "libtrain/tensor/tensor.h"

namespace lt::parallel {

class PartialSums {
 public:
  // A running sum.
  PartialSums() = default;
  // A tree over `micro_steps` leaves of `elements` f32 numbers. Allocates the partial sums. With `shares_sum`, the
  // largest one is the tensor that receives the sum; then nothing else may write to that tensor during a step.
  PartialSums(Size micro_steps, Size elements, Device device, bool shares_sum);

  // Sets the tensor that receives the sum. Call it once, before place_of().
  void end_in(const Tensor& sum);
  const Tensor& sum() const { return sum_; }

  struct Place {
    std::vector<Tensor> addends;  // to add to the leaf, in this order
    Tensor sum;                   // receives the result
  };
  // Where leaf `micro_step` goes. Leaves must come in order.
  Place place_of(Size micro_step) const;

 private:
  Tensor sum_;
  std::vector<Tensor> partial_;  // partial_[i]: of 2^i leaves, or undefined until end_in()
  Size micro_steps_ = 0;         // 0: a running sum
};

}  // namespace lt::parallel
