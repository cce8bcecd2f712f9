// Scratch memory for the partial results of one kernel call. It belongs to the calling thread and only grows, so
// kernels allocate nothing in a steady state.
#pragma once

#include <memory>
#include <new>

#include "libtrain/dtype.h"

namespace lt::kernels {

// Returns `count` uninitialised elements, aligned to 64 bytes and valid until the thread's next call of scratch(). A
// kernel that calls it on the launching thread may pass the pointer to its team.
template <class T>
T* scratch(Size count) {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  thread_local std::unique_ptr<std::byte[], Free> buffer;
  thread_local Size capacity = 0;
  const Size bytes = count * static_cast<Size>(sizeof(T));
  if (bytes > capacity) {
    buffer.reset();
    capacity = 0;
    buffer.reset(static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), std::align_val_t{64})));
    capacity = bytes;
  }
  return reinterpret_cast<T*>(buffer.get());
}

}  // namespace lt::kernels
