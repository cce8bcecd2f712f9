// Memory use and capacity in bytes, as the system reports them.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::recorder {

// On the CPU, the resident pages of this process. On CUDA, the bytes that all processes hold on the device.
Size system_bytes_in_use(Device device);
// On the CPU, the memory of the machine, or the container's limit if smaller. On CUDA, the memory of the device.
Size system_memory_bytes(Device device);
// The bytes of the machine's memory that this process can still take without swapping, or what its container's limit
// leaves if that is less.
Size system_memory_available();

}  // namespace lt::recorder
