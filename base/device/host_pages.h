// Large blocks of host memory whose pages are mapped before a driver pins them. Otherwise the driver maps them under a
// lock, and the process's other driver calls wait.
#pragma once

#include "libtrain/dtype.h"

namespace lt::device {

// Returns zeroed memory with all pages mapped, huge pages if the kernel allows them. Throws InternalError if the
// addresses cannot be reserved. If memory runs out while the pages are mapped, the kernel ends the process.
void* map_pages(Size bytes);
void unmap_pages(void* memory, Size bytes);

// Maps pages that exist but are not mapped yet, such as pages of a file in memory. Keeps their contents. No other
// thread may write to them during the call.
void make_present(void* memory, Size bytes);

}  // namespace lt::device
