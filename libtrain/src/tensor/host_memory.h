// Host memory for transfers to and from a device, and tensors over memory that the caller allocated.
#pragma once

#include <memory>

#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// Returns uninitialised memory. It is pinned if `device` is CUDA, so that copies run concurrently with the host and
// other streams. No ledger counts it.
std::shared_ptr<void> host_memory(Device device, Size bytes);

// Returns a flat CPU tensor over `memory`, and keeps `memory` alive. `memory` must hold the elements' bytes, rounded up
// to kAllocationAlignment. No ledger counts it.
Tensor tensor_over(std::shared_ptr<void> memory, Size elements, DType dtype = DType::f32);

}  // namespace lt::tensor
