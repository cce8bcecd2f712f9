// Copies a tensor's bytes to the host.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// Returns when the bytes have arrived. Throws UsageError if an earlier kernel has met a bad id (tensor/id_checks.h).
void read_bytes(Device device, void* to, const void* from, Size bytes);

}  // namespace lt::tensor
