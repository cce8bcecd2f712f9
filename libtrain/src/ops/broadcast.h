// Broadcasting: the shape of two tensors together, how each lies in it, and the way back for gradients.
#pragma once

#include <string_view>

#include "kernels/elementwise.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/tensor.h"

namespace lt::ops {

// Throws UsageError naming `op` and the `argument` that has shape b, if the two do not fit.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, std::string_view argument = "b");
inline Shape broadcast_shape(std::string_view op, const Tensor& a, const Tensor& b) {
  return broadcast_shape(op, a.shape(), b.shape());
}

// The index space of `shape`, in which a and b may be broadcast.
kernels::Strided space_of(const Shape& shape, const Tensor& out, const Tensor& a, const Tensor& b);

// `x` in `shape`: itself, or a copy where it is broadcast.
Tensor expanded(const Tensor& x, const Shape& shape);

// Adds `gradient`, which has the broadcast shape, to the slot of an input of smaller shape. Sums are in the gradients'
// dtype.
void reduce_to_slot(const Slot& slot, Tensor gradient);

}  // namespace lt::ops
