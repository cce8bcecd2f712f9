// Memory as the system counts it, in bytes.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

// On the CPU all pages of this process that are in memory; on CUDA what all processes hold of the device.
Size system_bytes_in_use(Device device);
// Memory of the machine, or as much of it as the container may have; or that of the CUDA device.
Size system_memory_bytes(Device device);

}  // namespace lt
