// Large blocks of the host's memory, with pages that are present before a driver pins them. A driver would make them
// present under a lock, and the process's other calls of it would wait.
#pragma once

#include "libtrain/dtype.h"

namespace lt::device {

// Returns zeros, in huge pages where the kernel allows them, all present. Throws InternalError if the addresses cannot
// be mapped. If memory runs out while pages are touched, the kernel ends the process.
void* map_pages(Size bytes);
void unmap_pages(void* memory, Size bytes);

// Maps pages that exist but are not mapped yet, such as those of a file in memory. Contents stay, and no other thread
// may write to them meanwhile.
void make_present(void* memory, Size bytes);

}  // namespace lt::device
