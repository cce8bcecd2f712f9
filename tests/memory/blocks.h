// Tensors whose sizes are multiples of the allocation alignment.
#pragma once

#include "libtrain/memory/memory.h"
#include "libtrain/tensor/tensor.h"

namespace lt_test {

inline constexpr lt::Size kBlock = lt::kAllocationAlignment;  // bytes

inline lt::Tensor take(lt::Size blocks, lt::Device device = lt::kCpu) {
  return lt::Tensor::empty({blocks * kBlock}, lt::DType::u8, device);
}

}  // namespace lt_test
