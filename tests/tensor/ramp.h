// Tensors with known values.
#pragma once

#include <numeric>
#include <vector>

#include "libtrain/tensor/tensor.h"

namespace lt_test {

// 0, 1, 2, ... in row-major order.
inline lt::Tensor ramp(const lt::Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0.0f);
  return lt::Tensor::from(values, shape);
}

}  // namespace lt_test
