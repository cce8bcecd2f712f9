// Allocates the flat buffers of a unit. The ledger counts each for its memory owner.
#pragma once

#include <memory>

#include "libtrain/memory/memory.h"
#include "libtrain/tensor/tensor.h"
#include "memory/allocation.h"

namespace lt::parallel {

// Allocates from `source` unless it is null.
inline Tensor flat_zeros(Size elements, DType dtype, Device device, MemoryOwner owner,
                         const std::shared_ptr<memory::BlockSource>& source = nullptr) {
  const MemoryScope scope(owner);
  const memory::AllocationScope from(source, device);
  return Tensor::zeros({elements}, dtype, device);
}

inline Tensor flat_uninitialised(Size elements, DType dtype, Device device, MemoryOwner owner) {
  const MemoryScope scope(owner);
  return Tensor::empty({elements}, dtype, device);
}

}  // namespace lt::parallel
