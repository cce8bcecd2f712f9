// Memory of the host whose bytes come from a device or go to it, and tensors that lie in memory someone else keeps.
#pragma once

#include <memory>

#include "libtrain/tensor/tensor.h"

namespace lt {

// Uninitialised; pinned where `device` is CUDA, so that copies run beside the host and other streams. In no ledger.
std::shared_ptr<void> host_memory(Device device, Size bytes);

// A flat tensor on the CPU over `memory`, which it keeps. `memory` has room for the elements, rounded up to
// kAllocationAlignment bytes. In no ledger.
Tensor tensor_over(std::shared_ptr<void> memory, Size elements, DType dtype = DType::f32);

}  // namespace lt
