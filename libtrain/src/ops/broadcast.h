// Broadcasting: the common shape of two tensors, their strides in it, and the reduction of gradients back to each
// input.
#pragma once

#include <string_view>

#include "kernels/elementwise.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/tensor.h"

namespace lt::ops {

// Throws UsageError if the shapes do not broadcast. The error names `op` and `argument`, which has shape b.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, std::string_view argument = "b");
inline Shape broadcast_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  return broadcast_shape(op, a.shape(), b.shape());
}

// Returns the index space of `shape` with the strides of the three tensors. `a` and `b` may be broadcast.
kernels::Strided space_of(const Shape& shape, const Tensor& out, const Tensor& a, const Tensor& b);

// Returns `x` itself if it has `shape`, else a copy broadcast to it.
Tensor expanded(const Tensor& x, const Shape& shape);

// Adds `gradient`, which has the broadcast shape, to the slot of a smaller input. Sums have the gradients' dtype.
void reduce_to_slot(const Slot& slot, Tensor gradient);

}  // namespace lt::ops
