// Copies a tensor's bytes to the host.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// The bytes have arrived when it returns. Throws UsageError if a kernel before met a bad id.
void read_bytes(Device device, void* to, const void* from, Size bytes);

}  // namespace lt::tensor
