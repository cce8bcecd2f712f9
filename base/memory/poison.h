// Marks memory as inaccessible, so that AddressSanitizer reports any access. Without AddressSanitizer these functions
// do nothing.
#pragma once

#include "libtrain/dtype.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace lt::memory {

#ifdef __SANITIZE_ADDRESS__
inline void poison(void* block, Size bytes) { __asan_poison_memory_region(block, static_cast<std::size_t>(bytes)); }
inline void unpoison(void* block, Size bytes) { __asan_unpoison_memory_region(block, static_cast<std::size_t>(bytes)); }
#else
inline void poison(void*, Size) {}
inline void unpoison(void*, Size) {}
#endif

}  // namespace lt::memory
