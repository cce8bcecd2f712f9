// Host memory for transfers to and from a device, and tensors over memory that someone else allocated.
#pragma once

#include <memory>

#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// Contents are unspecified. Pinned if `device` is CUDA, so that copies run beside the host and other streams. No ledger
// counts it.
std::shared_ptr<void> host_memory(Device device, Size bytes);

// Returns a flat CPU tensor over `memory`, and keeps `memory` alive. `memory` must have room for the elements, rounded
// up to kAllocationAlignment bytes. No ledger counts it.
Tensor tensor_over(std::shared_ptr<void> memory, Size elements, DType dtype = DType::f32);

}  // namespace lt::tensor
