// Dropout of a tensor whose first element's number is known only on the device.
#pragma once

#include "kernels/elementwise.h"
#include "libtrain/tensor/tensor.h"

namespace lt::ops {

Tensor dropout(const Tensor& x, float p, std::uint64_t key, const kernels::FirstElement& first);

}  // namespace lt::ops
