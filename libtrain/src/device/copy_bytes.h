// Copies bytes between the host and a device, or on it.
#pragma once

#include <cstring>

#include "device/cuda.h"

namespace lt {

// On CUDA in stream order; on the CPU at once.
inline void copy_bytes(const Stream& stream, void* to, const void* from, Size bytes) {
  if (stream.device().type == DeviceType::cuda) return cuda::copy(to, from, bytes, stream.cuda());
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
// In the order of the compute stream.
inline void copy_bytes(Device device, void* to, const void* from, Size bytes) {
  copy_bytes(Stream::compute(device), to, from, bytes);
}

}  // namespace lt
