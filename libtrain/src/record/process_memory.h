// Memory of the process and of the machine, as the kernel counts it, in bytes.
#pragma once

#include "libtrain/dtype.h"

namespace lt {

// All pages of this process that are in memory.
Size process_resident_bytes();
Size machine_memory_bytes();

}  // namespace lt
