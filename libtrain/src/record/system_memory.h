// Memory as the system counts it, in bytes.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

// On the CPU, all resident pages of this process; on CUDA, the bytes held by all processes on the device.
Size system_bytes_in_use(Device device);
// The memory of the machine, or the container's limit if that is smaller; or the memory of the CUDA device.
Size system_memory_bytes(Device device);

}  // namespace lt
