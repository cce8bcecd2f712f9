// Bytes between the host and a device, or on it.
#pragma once

#include <cstring>

#include "core/cuda.h"

namespace lt {

// On CUDA in the order of the stream that computes; on the CPU at once.
inline void copy_bytes(Device device, void* to, const void* from, Size bytes) {
  if (device.type == DeviceType::cuda) return cuda::copy(to, from, bytes, Stream::compute(device).cuda());
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace lt
