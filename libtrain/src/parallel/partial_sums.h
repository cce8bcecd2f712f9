// PartialSums: the sums over the micro-steps of a step, in the order that ParallelOptions::deterministic asks for. A
// micro-step is one micro-batch on every rank; its sum over ranks is a leaf here.
//
// Running sum:  ((s0 + s1) + s2) + s3 ...
// Tree (Determinism::elastic):  neighbours, then pairs of pairs; the last of an odd number goes up unchanged. So the
// sum over ranks continues as a tree over micro-steps, and the number of ranks only says where one ends and the other
// begins. The tree needs partial sums of 1, 2, 4, ... leaves. They work like the digits of a binary counter: a new leaf
// is added to the partial sums whose digits it carries over.
#pragma once

#include <vector>

#include "libtrain/tensor/tensor.h"

namespace lt::parallel {

// Returns how many partial sums a tree over `micro_steps` leaves needs.
int partial_sums_of(Size micro_steps);

class PartialSums {
 public:
  // A running sum in `whole`.
  explicit PartialSums(const Tensor& whole = {}) : whole_(whole) {}
  // A tree over `micro_steps` leaves. `partial` holds partial_sums_of(micro_steps) tensors, of which the last may be
  // `whole`. `whole` receives the sum.
  PartialSums(const Tensor& whole, std::vector<Tensor> partial, Size micro_steps)
      : whole_(whole), partial_(std::move(partial)), micro_steps_(micro_steps) {}

  struct Place {
    std::vector<Tensor> addends;  // to add to the leaf, in this order
    Tensor sum;                   // receives the result
  };
  // Where leaf `micro_step` goes. Leaves must come in order.
  Place place_of(Size micro_step) const;
  const Tensor& whole() const { return whole_; }

 private:
  Tensor whole_;
  std::vector<Tensor> partial_;  // partial_[i] holds the sum of 2^i leaves; the last one of the sum of more in the end
  Size micro_steps_ = 0;         // 0: a running sum
};

}  // namespace lt::parallel
